#!/usr/bin/env python3
"""models.py [--rounds N] [--models A,B] [--precision float32,bf16] [--seconds S]: compares a training step of
bvtrain on this CPU with the same model in PyTorch (gpu/peer.py; timm's models), in turns. Prints images per second
and, for each model, the median of the ratios with the least and the most.

Needs a python3 with torch 2.11 and timm: PYTHON=venv/bin/python scripts/bench/models.py. bf16 is worth measuring on
CPUs that compute it natively (avx512_bf16, amx_bf16). PyTorch gets its tuned form: channels_last for convolutions,
fused AdamW, autocast for bf16.
"""
import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
# name: (the batch, the model's keys, image size, channels, classes)
MODELS = {
    "cnn28": (128, "model_name: cnn", 28, 1, 10),
    "resnet_cifar": (128, "model_name: resnet_cifar", 32, 3, 10),
    "vit_ti16": (16, "model_name: vit\nmodel: {variant: Ti/16}", 224, 3, 1000),
    "vit_s16": (8, "model_name: vit\nmodel: {variant: S/16}", 224, 3, 1000),
    "mixer_s16": (8, "model_name: mlp_mixer\nmodel: {variant: S/16}", 224, 3, 1000),
    "resnetv2_50x1": (8, "model_name: bit\nmodel: {depth: 50, width: 1}", 224, 3, 1000),
}
CONFIG = """{keys}
num_classes: {classes}
precision: {precision}
total_steps: 1000
log_training_steps: 50
loss: softmax_xent
optax_name: scale_by_adam
lr: 0.001
wd: 0.0001
{clip}
input:
  data: {{name: synthetic, image_size: {size}, channels: {channels}, size: {images}, encoded: none}}
  batch_size: {batch}
  pp: value_range(-1, 1)|onehot({classes}, key="label", key_result="labels")|keep("image", "labels")
"""


def ours(name, precision, seconds):
    batch, keys, size, channels, classes = MODELS[name]
    clip = "" if size < 224 else "grad_clip_norm: 1.0"
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as config:
        config.write(CONFIG.format(keys=keys, batch=batch, size=size, channels=channels, classes=classes, clip=clip,
                                   precision=precision, images=2 * batch))
        config.flush()
        binary = os.environ.get("BVTRAIN", ROOT / "build/release/bvtrain")
        done = subprocess.run([binary, "bench", "--config", config.name, "--devices", "cpu", "--seconds", str(seconds), "--json"],
                              capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    return json.loads(done.stdout)["images_per_second"]["step"]["median"]


def theirs(name, precision, seconds, mode):
    batch = MODELS[name][0]
    done = subprocess.run([os.environ.get("PYTHON", sys.executable), ROOT / "scripts/bench/gpu/peer.py", "--device", "cpu",
                           "--model", name, "--batch", str(batch), "--precision", precision, "--mode", mode,
                           "--seconds", str(seconds), "--rounds", "3", "--threads", str(len(os.sched_getaffinity(0)))],
                          capture_output=True, text=True)
    found = re.search(r": (\d+(?:\.\d+)?) img/s", done.stdout)
    if not found:
        sys.exit(done.stderr or done.stdout)
    return float(found[1])


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--models", default=",".join(MODELS))
    arguments.add_argument("--precision", default="float32")
    arguments.add_argument("--seconds", type=float, default=2)
    arguments.add_argument("--mode", default="eager")
    given = arguments.parse_args()
    unknown = [name for name in given.models.split(",") if name not in MODELS]
    if unknown:
        arguments.error(f"unknown model {', '.join(unknown)}; known: {', '.join(MODELS)}")
    print("| model | batch | precision | bvtrain, images/s | PyTorch, images/s | ratio (least to most) |\n"
          "| --- | --- | --- | --- | --- | --- |", flush=True)
    for name in given.models.split(","):
        for precision in given.precision.split(","):
            pairs = [(ours(name, precision, given.seconds), theirs(name, precision, given.seconds, given.mode))
                     for _ in range(given.rounds)]
            ratios = sorted(a / b for a, b in pairs)
            a, b = (statistics.median(side) for side in zip(*pairs))
            print(f"| {name} | {MODELS[name][0]} | {precision} | {a:.4g} | {b:.4g} | "
                  f"{statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f}) |", flush=True)


main()
