"""tally.py curves NAME A B PRECISION: compares the losses of two metrics.jsonl, one line.
tally.py evaluations NAME A B: whether the rows of a run's evaluators are those of `bvtrain eval`.
tally.py logits NAME A B BOUND: how far the logits of two files of `bvtrain predict` are apart.
tally.py table JSON LOG...: writes the results of gpu.sh's logs as JSON, and prints a table of the steps with
their ratios to the peers, and whether each goal is met."""
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
    a.pop(0, None)  # there is no checkpoint of step 0, so the job has no row
    good = len(a) > 0 and a == b
    print(f"{'PASS' if good else 'FAIL'} {name}: {len(a)} and {len(b)} rows, {'equal' if good else 'DIFFERENT'}"
          + ("" if good else f": {a} against {b}"))


def logits(name, first, second, bound):
    import numpy
    a, b = (numpy.load(file)["logits"] for file in (first, second))
    far = float(numpy.abs(a - b).max() / numpy.abs(a).max())
    good = a.shape == b.shape and far <= float(bound)
    print(f"{'PASS' if good else 'FAIL'} {name}: {a.shape[0]} rows of logits differ by {far:.1e} (bound {bound})")


# Goals for one H200: model FLOPs utilisation in %, and speed as a multiple of PyTorch in a mode. "timm" asks for
# timm's model as the peer.
MFU_GOALS = {"vit_b16": 50, "vit_s16": 40, "vit_l16": 55, "mixer_b16": 45}
SPEED_GOALS = [("vit_b16", "compile", "timm", 1.15), ("vit_s16", "eager", "", 4), ("mixer_b16", "compile", "timm", 1.1),
               ("resnetv2_50x1", "eager", "", 1.5), ("cnn28", "eager", "", 3), ("cnn28", "reduce", "", 1.3)]
# Goals for other log lines: the goal, the line, the bound, and whether more is better.
LINE_GOALS = [
    ("first step of vit_b16 after the start of the process, s", r"^start vit_b16: ([\d.]+) s .* of 1 step\(s\), exit 0", 5, False),
    ("snapshot of vit_b16 stops the training, ms", r"^state\(\)\s+vit_b16 .*blocks ([\d.]+) ms", 5, False),
]
RATE = r"\s+([\d.]+) img/s"


def goals(steps, peers, lines):
    """Returns a line for each goal: MET, MISSED, or OPEN if it was not measured."""
    said = []

    def say(what, value, bound, higher, note=""):
        met = value is not None and (value >= bound if higher else value <= bound)
        word = "OPEN  " if value is None else "MET   " if met else "MISSED"
        figure = "not measured" if value is None else f"{value:.4g}"
        said.append(f"{word} {what}: {figure} (goal: at {'least' if higher else 'most'} {bound:g}){note}")

    fast = [s for s in steps if s["precision"] == "bf16" and s["feed"] == "device" and s["batch"] <= 1024]
    for model, bound in MFU_GOALS.items():
        best = max((s for s in fast if s["model"] == model), key=lambda s: s["mfu"], default=None)
        note = f", batch {best['batch']}, deterministic {best['deterministic']}" if best else ""
        say(f"{model} MFU, %", best and best["mfu"], bound, True, note)
    best_peers = {}  # a peer that was measured twice counts with its faster figure
    for p in sorted(peers, key=lambda p: p["images_per_second"]):
        best_peers[p["model"], p["batch"], p["mode"], p["kind"]] = p
    peers = list(best_peers.values())
    for model, mode, kind, bound in SPEED_GOALS:
        ratios = [(s["images_per_second"] / p["images_per_second"], s, p) for s in fast for p in peers
                  if (s["model"], s["batch"]) == (model, p["batch"]) and (p["model"], p["mode"]) == (model, mode)
                  and kind in ("", p["kind"])]
        best = max(ratios, key=lambda r: r[0], default=None)
        note = f", batch {best[1]['batch']}, deterministic {best[1]['deterministic']}" if best else ""
        say(f"{model} as a multiple of PyTorch {mode} ({kind or 'timm or plain'})", best and best[0], bound, True, note)
    for what, pattern, bound, higher in LINE_GOALS:
        found = [float(m.group(1)) for line in lines if (m := re.match(pattern, line))]
        say(what, min(found, default=None), bound, higher)
    rates = {part: [float(m.group(1)) for line in lines if (m := re.match(r"^jpeg vit B/16: " + part + RATE, line))]
             for part in ("step", "training")}
    share = 100 * rates["training"][-1] / rates["step"][-1] if all(rates.values()) else None
    say("vit_b16 on JPEG files as a share of its speed on one batch, %", share, 97, True)
    return said


def table(out, *logs):
    steps, peers, lines, verdicts, machine = [], [], [], {"PASS": 0, "FAIL": 0, "SKIP": 0}, []
    for log in logs:
        with open(log, errors="replace") as file:
            lines += file
    for line in lines:
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
        elif line.startswith(("gpu  ", "host ", "py   ")) and line.strip() not in machine:
            machine.append(line.strip())
    with open(out, "w") as file:
        json.dump({"machine": machine, "steps": steps, "peers": peers, "verdicts": verdicts, "goals": goals(steps, peers, lines)}, file, indent=1)
    print(*machine, "", sep="\n")
    print("| model | batch | precision | feed | images/s (least to most) | MFU % | peers: ours / theirs |\n"
          "| --- | --- | --- | --- | --- | --- | --- |")
    for step in steps:
        ratios = [f"{p['mode']} ({p['kind']}) {step['images_per_second'] / p['images_per_second']:.2f}"
                  for p in peers if (p["model"], p["batch"]) == (step["model"], step["batch"])]
        other = "" if step["deterministic"] == "true" else ", deterministic: false"
        other += "" if step["graph"] == "auto" else f", graph: {step['graph']}"
        other += "" if step["sdpa"] == "default" else f", {step['sdpa']} attention"
        print(f"| {step['model']} | {step['batch']} | {step['precision']} | {step['feed']}{other} | "
              f"{step['images_per_second']:.0f} ({step['least']:.0f} to {step['most']:.0f}) | {step['mfu']:.1f} | "
              f"{', '.join(ratios)} |")
    print("", *goals(steps, peers, lines), sep="\n")
    print(f"\n{verdicts['PASS']} passed, {verdicts['FAIL']} failed, {verdicts['SKIP']} skipped for lack of time")


{"curves": curves, "evaluations": evaluations, "logits": logits, "table": table}[sys.argv[1]](*sys.argv[2:])
