#!/usr/bin/env python3
"""saves.py [--binary F] [--rounds N] [--seconds S]: what saves cost a run.

Trains ViT-S/16 with Adam, whose state has 264 MB, in pairs: without saves, and with a save every S
seconds. Prints the time of a step with saves divided by that without, and from it the loss of a run
that saves every 60 seconds: (ratio - 1) * S / 60. Its spread is that of the machine.
"""

import argparse
import json
import os
import statistics
import subprocess
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PP = 'value_range(-1, 1)|onehot(1000, key="label", key_result="labels")|keep("image", "labels")'
CONFIG = f"""
num_classes: 1000
precision: float32
total_steps: 60
loss: softmax_xent
optax_name: scale_by_adam
lr: 0.001
model_name: vit
model: {{variant: S/16}}
input:
  data: {{name: synthetic, image_size: 224, channels: 3, size: 64, encoded: none}}
  batch_size: 2
  pp: {PP}
log_training_steps: 5
"""


def step_time(binary, folder, seconds):
    workdir = tempfile.mkdtemp(dir=folder)
    subprocess.run([binary, "--config", os.path.join(folder, "c.yaml"), "--workdir", workdir,
                    "--set", f"ckpt_seconds={seconds}"], check=True, capture_output=True)
    with open(os.path.join(workdir, "metrics.jsonl")) as file:
        rows = [json.loads(line) for line in file]
    rows = [row for row in rows if "training_loss" in row][1:]  # the first step has the start in it
    return (rows[-1]["uptime"] - rows[0]["uptime"]) / (rows[-1]["step"] - rows[0]["step"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--binary", default=os.path.join(ROOT, "build/release/bvtrain"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4)
    given = parser.parse_args()
    ratios = []
    with tempfile.TemporaryDirectory(prefix="bvtrain-saves-") as folder:
        with open(os.path.join(folder, "c.yaml"), "w") as file:
            file.write(CONFIG)
        for round in range(given.rounds):
            times = {}
            order = [given.seconds, 1e6] if round % 2 else [1e6, given.seconds]
            for seconds in order:
                times[seconds] = step_time(given.binary, folder, seconds)
            ratios.append(times[given.seconds] / times[1e6])
            print(f"{1000 * times[1e6]:.0f} ms a step, with saves {1000 * times[given.seconds]:.0f} ms: "
                  f"{ratios[-1]:.3f}", flush=True)
    loss = [100 * (ratio - 1) * given.seconds / 60 for ratio in ratios]
    print(f"saves every 60 s cost {statistics.median(loss):.2f} % ({min(loss):.2f}..{max(loss):.2f})")


if __name__ == "__main__":
    main()
