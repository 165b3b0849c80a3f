#!/usr/bin/env python3
"""Times `bvtrain compare` on a hundred generated workdirs.

    many_runs.py [BVTRAIN] [RUNS] [ROWS]

Each run has the resolved config of configs/digits_cnn.yaml and ROWS rows (1000) of 24 metrics. Prints
the median and the range of 5 calls, as text and with --html, and their CPU time, which tells more on a
busy machine.
"""
import json
import math
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def make_runs(bvtrain, folder, runs, rows):
    model = os.path.join(folder, "model")
    subprocess.run([bvtrain, "--config", os.path.join(ROOT, "configs/digits_cnn.yaml"), "--workdir", model,
                    "--set", "total_steps=2"], check=True, capture_output=True)
    with open(os.path.join(model, "config.yaml"), encoding="utf-8") as stream:
        config = stream.read()
    for run in range(runs):
        workdir = os.path.join(folder, "runs", f"run-{run:03}")
        os.makedirs(workdir)
        with open(os.path.join(workdir, "config.yaml"), "w", encoding="utf-8") as stream:
            stream.write(config.replace("lr: 0.002", f"lr: {0.001 * (1 + run // 4)}")
                         .replace("seed: 0", f"seed: {run % 4}").replace("total_steps: 2", f"total_steps: {rows}"))
        with open(os.path.join(workdir, "metrics.jsonl"), "w", encoding="utf-8") as stream:
            for step in range(1, rows + 1):
                row = {"step": step, "test/prec@1": 1 - math.exp(-step / (50 + run)), "training_loss": math.exp(-step / 99)}
                row.update({f"some/metric_{i}": math.sin(step * (i + 1)) for i in range(22)})
                stream.write(json.dumps(row) + "\n")
        with open(os.path.join(workdir, "DONE"), "w", encoding="utf-8") as stream:
            stream.write(f"{rows}\n")
    return os.path.join(folder, "runs")


def cpu_seconds():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def seconds(command):
    times, cpu = [], cpu_seconds()
    for _ in range(5):
        start = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        times.append(time.perf_counter() - start)
    cpu = (cpu_seconds() - cpu) / 5
    return f"{statistics.median(times):.2f} s ({min(times):.2f} .. {max(times):.2f}), {cpu:.2f} s of CPU time"


def main(bvtrain=os.path.join(ROOT, "build/release/bvtrain"), runs="100", rows="1000"):
    with tempfile.TemporaryDirectory() as folder:
        made = make_runs(bvtrain, folder, int(runs), int(rows))
        size = sum(os.path.getsize(os.path.join(base, name)) for base, _, names in os.walk(made) for name in names)
        print(f"{runs} runs, {size / 2**20:.0f} MiB")
        print("bvtrain --version:", seconds([bvtrain, "--version"]))
        print("compare:", seconds([bvtrain, "compare", made]))
        print("compare --html:", seconds([bvtrain, "compare", made, "--html", os.path.join(folder, "page.html")]))


if __name__ == "__main__":
    main(*sys.argv[1:])
