"""Prints the images per second of the notebook's CNN in PyTorch.

The counterpart of `bvtrain bench --config configs/fashion_mnist_cnn.yaml`. The model is conv 32 3x3, ReLU,
average pool 2, conv 64 3x3, ReLU, pool, dense 256, ReLU, dense 10, trained with AdamW. The uint8
images are in memory, shuffled every epoch and scaled to [0, 1]. The loss is read every 50 steps.

  --mode default   eager, fp32, NCHW: what a user writes
  --mode tuned     eager, bf16 autocast, channels_last, fused AdamW: what an expert writes
"""
import argparse
import time

import torch
import torch.nn.functional as F
from torch import nn


def model():
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.AvgPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.AvgPool2d(2),
        nn.Flatten(), nn.Linear(64 * 7 * 7, 256), nn.ReLU(), nn.Linear(256, 10))


def main():
    args = argparse.ArgumentParser()
    args.add_argument("--mode", choices=["default", "tuned"], default="default")
    args.add_argument("--batch", type=int, default=128)
    args.add_argument("--seconds", type=float, default=5)
    args.add_argument("--threads", type=int, default=2)
    args = args.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    tuned = args.mode == "tuned"

    images = torch.randint(0, 256, (8192, 1, 28, 28), dtype=torch.uint8)
    labels = torch.randint(0, 10, (8192,))
    net = model()
    if tuned:
        net = net.to(memory_format=torch.channels_last)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3, weight_decay=1e-4, fused=tuned)

    def batches():
        while True:
            order = torch.randperm(len(images))
            for i in range(0, len(images) - args.batch + 1, args.batch):
                index = order[i:i + args.batch]
                yield images[index].float().div_(255), labels[index]

    stream = batches()

    def step():
        x, y = next(stream)
        if tuned:
            x = x.contiguous(memory_format=torch.channels_last)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=tuned):
            logits = net(x)
        loss = F.cross_entropy(logits.float(), y)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        return loss

    for _ in range(5):
        step()
    begin, steps = time.perf_counter(), 0
    while time.perf_counter() - begin < args.seconds:
        loss = step()
        steps += 1
        if steps % 50 == 0:
            loss.item()
    print(f"{steps * args.batch / (time.perf_counter() - begin):.1f}")


if __name__ == "__main__":
    main()
