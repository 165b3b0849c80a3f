#!/usr/bin/env python3
"""Compares a run's TensorBoard events with its metrics.jsonl.

    check_tensorboard.py WORKDIR/tb WORKDIR/metrics.jsonl

Reads the events with TensorBoard's own reader (`pip install tensorboard`), which applies its rules
for restarted runs. Exits with 1 if any scalar (step, tag, float32 value) is missing, differs or has
no row.
"""
import json
import sys

import numpy as np
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

MOST_SHOWN = 10


def scalars_of_events(folder):
    accumulator = EventAccumulator(folder, size_guidance={"scalars": 0})  # 0: keep all
    accumulator.Reload()
    scalars = {}
    for tag in accumulator.Tags()["scalars"]:
        for event in accumulator.Scalars(tag):
            scalars.setdefault((event.step, tag), []).append(np.float32(event.value))
    return scalars


def scalars_of_rows(file):
    scalars = {}
    with open(file, encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            step = row.pop("step")
            for tag, value in row.items():
                with np.errstate(over="ignore"):
                    scalars[step, tag] = np.float32(float(value))  # also "nan", "inf", "-inf"
    return scalars


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    events, rows = scalars_of_events(sys.argv[1]), scalars_of_rows(sys.argv[2])
    problems = []
    for key, value in rows.items():
        found = events.pop(key, [])
        if len(found) != 1 or not np.array_equal(found[0], value, equal_nan=True):
            problems.append(f"step {key[0]} {key[1]}: row has {value}, events have {found}")
    problems += [f"step {key[0]} {key[1]}: no row, events have {value}" for key, value in events.items()]
    for problem in problems[:MOST_SHOWN]:
        print(problem, file=sys.stderr)
    print(f"{len(rows)} scalars of {sys.argv[2]}, {len(problems)} problems")
    if problems or not rows:
        sys.exit(1)


if __name__ == "__main__":
    main()
