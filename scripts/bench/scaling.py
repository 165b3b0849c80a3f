#!/usr/bin/env python3
"""Measures steps of several processes on this machine, and how well `bvtrain bench scaling` predicts
them. Prints the tables of docs/scaling.md. Needs only the standard library. Run in turn, on an
otherwise idle machine:

    scripts/bench/scaling.py points vit        # and: points resnet, points fsdp
    scripts/bench/scaling.py bytes             # reads the kernel's counters of the loopback
    scripts/bench/scaling.py calibrate         # one process on each core, and the collectives alone
    scripts/bench/scaling.py tables

Results are kept in --results (JSON). A point is the median, smallest and largest of ROUNDS runs. The
figure of a run is the median of its profiled steps (key `profile`).
"""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CORES = len(os.sched_getaffinity(0))
ROUNDS, FIRST, STEPS = 3, 4, 8
EACH = 8  # examples per process; other points divide a batch of EACH * CORES among the processes
SIZES = (1, 2, 4, 8)

COMMON = """
num_classes: 10
precision: float32
total_steps: {total}
input:
  data: {{name: synthetic, size: 4096, image_size: {size}, classes: 10, encoded: none}}
  batch_size: {batch}
  threads: 1
  pp: 'value_range(-1, 1)|onehot(10, key="label", key_result="labels")|keep("image", "labels")'
loss: softmax_xent
optax_name: scale_by_adam
lr: 0.001
log_training_steps: 1000
bucket_mb: 4
profile: {{first_step: {first}, steps: {steps}}}
"""
VIT = "model_name: vit\nmodel: {width: 256, depth: 6, mlp_dim: 1024, num_heads: 4, patch_size: [8, 8], pool_type: gap}\n"
MODELS = {
    "vit": (64, VIT),
    "resnet": (32, "model_name: resnet_cifar\nmodel: {norm: group, width: 32}\n"),
    "fsdp": (64, VIT + """sharding_strategy: [['.*', 'fsdp(axis="data", min_size_to_shard_mb=0.1)']]\n"""),
}


def keep(args, name, value):
    """Stores a result in the file."""
    old = json.load(open(args.results)) if os.path.exists(args.results) else {}
    with open(args.results, "w") as file:
        json.dump({**old, name: value}, file, indent=1)
    print(name, value, flush=True)


def config(folder, model, batch, total=FIRST + STEPS, steps=STEPS):
    size, text = MODELS[model]
    path = os.path.join(folder, "c.yaml")
    with open(path, "w") as file:
        file.write(COMMON.format(size=size, batch=batch, total=total, first=FIRST, steps=steps) + text)
    return path


def medians(trace):
    """Returns the median milliseconds of each kind of span."""
    spans = {}
    for event in json.load(open(trace))["traceEvents"]:
        if event["ph"] == "X":
            name = "step" if event["name"].startswith("step ") else event["name"]
            spans.setdefault(name, []).append(event["dur"] / 1e3)
    return {name: statistics.median(values) for name, values in spans.items()}


def run_once(bvtrain, model, ranks, each, prefix=(), env=None):
    with tempfile.TemporaryDirectory() as folder:
        command = [*prefix, bvtrain, "--config", config(folder, model, ranks * each), "--workdir",
                   folder + "/w", "--devices", f"cpu:{ranks}"]
        done = subprocess.run(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                              env={**os.environ, **(env or {})})
        if done.returncode != 0:
            sys.exit(done.stderr)
        found = medians(folder + "/w/trace/rank-0.json")
        overlap = re.search(r"overlap: (\d+)%(?:.*?, (\d+)%)?", done.stderr)
        found["overlap"] = [float(x) for x in overlap.groups() if x] if overlap else []
        return found


def points(args):
    for ranks in SIZES:
        eaches = {EACH} if args.model == "fsdp" else {EACH, EACH * CORES // ranks}
        for each in sorted(eaches - {0}):
            rounds = [run_once(args.bvtrain, args.model, ranks, each) for _ in range(ROUNDS)]
            overlap = zip(*(one["overlap"] for one in rounds))
            keep(args, f"{args.model} {ranks} {each}",
                 {"step": sorted(one["step"] for one in rounds),
                  "overlap": [statistics.median(part) for part in overlap]})


def loopback_bytes():
    for line in open("/proc/net/dev"):
        if line.strip().startswith("lo:"):
            return int(line.split(":")[1].split()[8])
    raise RuntimeError("no loopback")


def bytes_sent(args):
    """Measures the bytes that a step sends over the loopback, with headers.

    Subtracts a short run from a long one, so that the bytes of the start cancel.
    """
    for model in ("vit", "fsdp"):
        for ranks in SIZES[1:]:
            sent = []
            for steps in (2, 22):
                with tempfile.TemporaryDirectory() as folder:
                    path = config(folder, model, ranks, total=FIRST + steps)
                    before = loopback_bytes()
                    subprocess.run([args.bvtrain, "--config", path, "--devices", f"cpu:{ranks}", "--set",
                                    "profile=null"], check=True, stderr=subprocess.DEVNULL)
                    sent.append(loopback_bytes() - before)
            keep(args, f"bytes {model} {ranks}", (sent[1] - sent[0]) / 20 / ranks)


def on_each_core(args, model, each):
    """Runs one process on each core at the same time, which send nothing. Returns their medians."""
    cores = sorted(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as folder:
        path = config(folder, model, each)
        running = [subprocess.Popen(["taskset", "-c", str(core), args.bvtrain, "--config", path, "--workdir",
                                     f"{folder}/{core}", "--devices", "cpu"], stderr=subprocess.DEVNULL)
                   for core in cores]
        for process in running:
            if process.wait() != 0:
                sys.exit("a run failed")
        return [medians(f"{folder}/{core}/trace/rank-0.json") for core in cores]


def calibrate(args):
    """Measures computing without sending, and sending without computing."""
    for model in ("vit", "resnet"):
        for each in sorted({EACH, *(EACH * CORES // ranks for ranks in SIZES if ranks >= CORES)} - {0}):
            found = [one for _ in range(ROUNDS) for one in on_each_core(args, model, each)]
            keep(args, f"compute {model} {each}",
                 {name: statistics.median(one[name] for one in found) for name in ("step", "optimizer")})
    for ranks in SIZES[1:]:
        texts = [subprocess.run([args.bvtrain, "bench", "collectives", "--devices", f"cpu:{ranks}"],
                                stdout=subprocess.PIPE, check=True, text=True).stdout for _ in range(ROUNDS)]
        pairs = [re.search(r"--latency-us (\S+) --bandwidth-gb (\S+)", text).groups() for text in texts]
        keep(args, f"collectives {ranks}", texts[0])
        keep(args, f"link {ranks}", [statistics.median(float(pair[i]) for pair in pairs) for i in (0, 1)])


def predicted(args, results, model, ranks, each):
    """Returns (step in ms, MiB sent) as `bench scaling` predicts them, calibrated without any point."""
    compute = results[f"compute {'vit' if model == 'fsdp' else model} {each}"]
    latency, bandwidth = results[f"link {ranks}"]
    with tempfile.TemporaryDirectory() as folder:
        text = subprocess.run(
            [args.bvtrain, "bench", "scaling", "--config", config(folder, model, ranks * each), "--processes",
             str(ranks), "--examples", str(each), "--compute-ms", str(compute["step"] - compute["optimizer"]),
             "--update-ms", str(compute["optimizer"]), "--latency-us", str(latency), "--bandwidth-gb",
             str(bandwidth), "--cores", str(CORES)], stdout=subprocess.PIPE, check=True, text=True).stdout
    fields = text.strip().split("\n")[-1].split()
    return float(fields[3]), float(fields[7])


def tables(args):
    results = json.load(open(args.results))
    print("| model | N | examples per process | step, ms | img/s | overlap | predicted, ms | error |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for model in MODELS:
        for ranks in SIZES:
            for each in sorted({EACH, EACH * CORES // ranks}, reverse=True):
                point = results.get(f"{model} {ranks} {each}")
                if point is None:
                    continue
                low, step, high = point["step"]
                row = f"| {model} | {ranks} | {each} | {step:.0f} ({low:.0f} .. {high:.0f}) | {1e3 * ranks * each / step:.1f} | "
                row += ", ".join(f"{part:.0f} %" for part in point["overlap"]) + " | "
                if ranks > 1:
                    guess, _ = predicted(args, results, model, ranks, each)
                    row += f"{guess:.0f} | {100 * (guess / step - 1):+.0f} % |"
                else:
                    row += "| |"
                print(row)
    print("\n| strategy | N | bytes per rank, formula, MiB | loopback, MiB | difference |")
    print("| --- | --- | --- | --- | --- |")
    for model in ("vit", "fsdp"):
        for ranks in SIZES[1:]:
            if f"bytes {model} {ranks}" not in results:
                continue
            real = results[f"bytes {model} {ranks}"] / 2**20
            _, formula = predicted(args, results, model, ranks, EACH)
            print(f"| {'replicate' if model == 'vit' else 'fsdp'} | {ranks} | {formula:.2f} | {real:.2f} | {100 * (real / formula - 1):+.1f} % |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=["points", "bytes", "calibrate", "tables"])
    parser.add_argument("model", nargs="?", choices=sorted(MODELS), default="vit")
    parser.add_argument("--bvtrain", default=os.path.join(ROOT, "build/release/bvtrain"))
    parser.add_argument("--results", default="scaling.json")
    args = parser.parse_args()
    part = {"points": points, "bytes": bytes_sent, "calibrate": calibrate, "tables": tables}[args.part]
    part(args)


if __name__ == "__main__":
    main()
