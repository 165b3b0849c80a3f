"""tally.py curves NAME A B PRECISION: compares the losses of two metrics.jsonl, one line.
tally.py evaluations NAME A B: whether the rows of a run's evaluators are those of `bvtrain eval`.
tally.py logits NAME A B BOUND: how far the logits of two files of `bvtrain predict` are apart.
tally.py table LOG JSON: writes the results of gpu.sh's log as JSON, and prints a table of the steps with
their ratios to the peers."""
import json
import math
import re
import sys

STEP = re.compile(r"^step\s+(\S+)\s+bs (\d+)\s+(\S+) feed=(\S+) sdpa=(\S+) deterministic=(\S+) graph=(\S+): "
                  r"(\d+) img/s \((\d+)\.\.(\d+)\) ([\d.]+) ms/step MFU ([\d.]+)% first ([\d.]+) s")
PEER = re.compile(r"^peer\s+(\S+)\s+bs (\d+)\s+(\S+)\s+\((\S+)\): ([\d.]+) img/s \(([\d.]+?)\.\.([\d.]+)\)")


def rows(path):
    with open(path) as file:
        return {r["step"]: r["training_loss"] for r in map(json.loads, file) if "training_loss" in r}


def curves(name, first, second, precision):
    a, b = rows(first), rows(second)
    steps = sorted(set(a) & set(b))
    head = max(abs(a[s] - b[s]) / max(abs(a[s]), 1e-6) for s in steps[:10])
    mean = lambda curve: sum(curve[s] for s in steps[-20:]) / len(steps[-20:])
    tail = abs(mean(a) - mean(b)) / max(mean(a), 0.02)
    head_bound, tail_bound = (1e-4, 0.10) if precision == "float32" else (1e-2, 0.15)
    good = len(a) == len(b) and head <= head_bound and tail <= tail_bound and all(map(math.isfinite, b.values()))
    print(f"{'PASS' if good else 'FAIL'} {name}: the first 10 losses differ by {head:.1e} (bound {head_bound:g}), "
          f"means of the last 20: {mean(a):.4f} / {mean(b):.4f}, {100 * tail:.1f} % (bound {100 * tail_bound:g} %)")


def measured(path):
    """Returns the rows of evaluators by step: what begins with the name of one, without times."""
    with open(path) as file:
        rows = ((r["step"], {k: v for k, v in r.items() if k.startswith("test/")}) for r in map(json.loads, file))
        return {step: values for step, values in rows if values}


def evaluations(name, run, job):
    a, b = measured(run), measured(job)
    good = len(a) > 0 and a == b
    print(f"{'PASS' if good else 'FAIL'} {name}: {len(a)} and {len(b)} rows, {'equal' if good else 'DIFFERENT'}"
          + ("" if good else f": {a} against {b}"))


def logits(name, first, second, bound):
    import numpy
    a, b = (numpy.load(file)["logits"] for file in (first, second))
    far = float(numpy.abs(a - b).max() / numpy.abs(a).max())
    good = a.shape == b.shape and far <= float(bound)
    print(f"{'PASS' if good else 'FAIL'} {name}: {a.shape[0]} rows of logits differ by {far:.1e} (bound {bound})")


def table(log, out):
    steps, peers, verdicts = [], [], {"PASS": 0, "FAIL": 0}
    with open(log, errors="replace") as file:
        for line in file:
            if found := STEP.match(line):
                name, batch, precision, feed, sdpa, deterministic, graph, *numbers = found.groups()
                keys = ("images_per_second", "least", "most", "ms", "mfu", "first_step")
                steps.append({"model": name, "batch": int(batch), "precision": precision, "feed": feed, "sdpa": sdpa,
                              "deterministic": deterministic, "graph": graph, **dict(zip(keys, map(float, numbers)))})
            elif found := PEER.match(line):
                name, batch, mode, kind, *numbers = found.groups()
                peers.append({"model": name, "batch": int(batch), "mode": mode, "kind": kind,
                              **dict(zip(("images_per_second", "least", "most"), map(float, numbers)))})
            elif line[:4] in verdicts:
                verdicts[line[:4]] += 1
    with open(out, "w") as file:
        json.dump({"steps": steps, "peers": peers, "verdicts": verdicts}, file, indent=1)
    print("| model | batch | precision | feed | images/s (least to most) | MFU % | peers: ours / theirs |\n"
          "| --- | --- | --- | --- | --- | --- | --- |")
    for step in steps:
        ratios = [f"{p['mode']} ({p['kind']}) {step['images_per_second'] / p['images_per_second']:.2f}"
                  for p in peers if (p["model"], p["batch"]) == (step["model"], step["batch"])]
        other = "" if step["deterministic"] == "true" else ", deterministic: false"
        other += "" if step["graph"] == "auto" else ", graph: off"
        print(f"| {step['model']} | {step['batch']} | {step['precision']} | {step['feed']}{other} | "
              f"{step['images_per_second']:.0f} ({step['least']:.0f} to {step['most']:.0f}) | {step['mfu']:.1f} | "
              f"{', '.join(ratios)} |")
    print(f"\n{verdicts['PASS']} passed, {verdicts['FAIL']} failed")


{"curves": curves, "evaluations": evaluations, "logits": logits, "table": table}[sys.argv[1]](*sys.argv[2:])
