#!/usr/bin/env python3
"""Writes test/golden/tfds_splits.json: what TFDS itself makes of 240 random split expressions.

    python3 -m venv venv && venv/bin/pip install tensorflow-datasets
    venv/bin/python scripts/golden/tfds_splits.py > test/golden/tfds_splits.json

A case has the expression, the examples in each shard of each split, and either the absolute slices
[[split, begin, end], ...] or null if TFDS refuses the expression. The cases of `even` have besides
the number of the part and of all parts of tfds.even_splits.
"""
import json, random
import tensorflow_datasets as tfds
from tensorflow_datasets.core import splits as lib


def infos(shards):
    return lib.SplitDict([lib.SplitInfo(name=name, shard_lengths=lengths, num_bytes=1, filename_template=None)
                          for name, lengths in shards.items()])


def slices(split, shards):
    """Returns what the expression selects; None if TFDS refuses it."""
    try:
        found = split.to_absolute(infos(shards)) if not isinstance(split, str) else \
            lib.ReadInstruction.from_spec(split).to_absolute(infos(shards))
    except (ValueError, AssertionError, NotImplementedError):
        return None
    if not isinstance(found, list):
        found = [found]
    sizes = {name: sum(lengths) for name, lengths in shards.items()}
    return [[one.splitname, one.from_ or 0, sizes[one.splitname] if one.to is None else one.to] for one in found]


def bound(rng, unit, size, shards):
    if rng.random() < 0.25:
        return ""
    if unit == "%":
        value = rng.choice([str(rng.randint(-100, 100)), f"{rng.uniform(-100, 100):.2f}", "12.5", "0.1"])
        return value + "%"
    if unit == "shard":
        return f"{rng.randint(-shards, shards)}shard"
    return str(rng.randint(-size - 2, size + 2))


def term(rng, shards):
    name = rng.choice(list(shards))
    size, count = sum(shards[name]), len(shards[name])
    kind = rng.random()
    if kind < 0.1:
        return name
    if kind < 0.2:
        return f"{name}[{rng.randint(0, count - 1)}shard]"
    unit = rng.choice(["%", "%", "", "", "shard"])
    while True:
        begin, end = bound(rng, unit, size, count), bound(rng, unit, size, count)
        # TFDS does not take [:]. Most slices should not be empty.
        if (begin or end) and (rng.random() < 0.15 or slices(f"{name}[{begin}:{end}]", shards) not in (None, [])):
            found = slices(f"{name}[{begin}:{end}]", shards)
            if found is None or found[0][1] < found[0][2] or rng.random() < 0.15:
                return f"{name}[{begin}:{end}]"


def main():
    rng = random.Random(1)
    cases = []
    while len(cases) < 240:
        shards = {name: [rng.randint(1, rng.choice([3, 40, 2000])) for _ in range(rng.randint(1, 5))]
                  for name in ("train", "test")}
        split = "+".join(term(rng, shards) for _ in range(rng.choice([1, 1, 1, 2, 3])))
        case = {"split": split, "shards": shards}
        if len(cases) >= 200:
            case["even"] = [rng.randint(1, 7)] * 2
            case["even"][0] = rng.randint(1, case["even"][1])
            split = split.split("+")[0]
            case["split"] = split
            base = slices(split, shards)
            part = tfds.even_splits(split, case["even"][1])[case["even"][0] - 1] if base else None
            case["slices"] = slices(part, shards) if part is not None else None
        else:
            case["slices"] = slices(split, shards)
        # In bvtrain, empty slices are errors, however TFDS treats them.
        if case["slices"] is not None and any(begin >= end for _, begin, end in case["slices"]):
            case["slices"] = None
        cases.append(case)
    print("[\n" + ",\n".join(json.dumps(case) for case in cases) + "\n]")


main()
