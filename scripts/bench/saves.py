#!/usr/bin/env python3
"""saves.py [--binary F] [--rounds N] [--seconds S] [--every-step]: what saves cost a run.

Trains in pairs, without saves and with saves, and prints the time of a step with saves divided by
that without. Its spread is that of the machine.

ViT-S/16 with Adam, whose state has 264 MB, saves every S seconds. From the ratio follows the loss of a
run that saves every 60 seconds: (ratio - 1) * S / 60. With --every-step configs/digits_cnn.yaml, whose
steps take 3 ms, has a save due after every step.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PP = 'value_range(-1, 1)|onehot(1000, key="label", key_result="labels")|keep("image", "labels")'
VIT = f"""
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
DIGITS = ["total_epochs=null", "total_steps=4000", "log_training_steps=50", "evals=null"]


def step_time(binary, folder, config, settings):
    workdir = tempfile.mkdtemp(dir=folder)
    args = [binary, "--config", config, "--workdir", workdir]
    for setting in settings:
        args += ["--set", setting]
    subprocess.run(args, check=True, capture_output=True)
    with open(os.path.join(workdir, "result.json")) as file:
        left_out = json.load(file)["left_out_saves"]
    if left_out and "ckpt_steps=1" not in settings:
        sys.exit(f"{left_out} saves were left out: give --seconds a larger number")
    with open(os.path.join(workdir, "metrics.jsonl")) as file:
        rows = [json.loads(line) for line in file]
    rows = [row for row in rows if "training_loss" in row][1:]  # the first step includes the start
    return (rows[-1]["uptime"] - rows[0]["uptime"]) / (rows[-1]["step"] - rows[0]["step"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--binary", default=os.path.join(ROOT, "build/release/bvtrain"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=6)
    parser.add_argument("--every-step", action="store_true")
    given = parser.parse_args()
    ratios = []
    with tempfile.TemporaryDirectory(prefix="bvtrain-saves-") as folder:
        config = os.path.join(ROOT, "configs/digits_cnn.yaml")
        without, saving = DIGITS + ["ckpt_steps=null"], DIGITS + ["ckpt_steps=1"]
        if not given.every_step:
            config = os.path.join(folder, "c.yaml")
            with open(config, "w") as file:
                file.write(VIT)
            without, saving = [], [f"ckpt_seconds={given.seconds}"]
        for round in range(given.rounds):
            times = [0.0, 0.0]
            for i in (round % 2, 1 - round % 2):
                times[i] = step_time(given.binary, folder, config, (without, saving)[i])
            ratios.append(times[1] / times[0])
            print(f"{1000 * times[0]:.1f} ms per step, with saves {1000 * times[1]:.1f} ms: "
                  f"{ratios[-1]:.3f}", flush=True)
    print(f"steps take {statistics.median(ratios):.3f} times as long ({min(ratios):.3f}..{max(ratios):.3f})")
    if not given.every_step:
        loss = [100 * (ratio - 1) * given.seconds / 60 for ratio in ratios]
        print(f"saves every 60 s cost {statistics.median(loss):.2f} % ({min(loss):.2f}..{max(loss):.2f})")


if __name__ == "__main__":
    main()
