"""Trains one step in PyTorch, to measure the time from process start to the end of the first step.

The counterpart of `bvtrain --config configs/digits_cnn.yaml --set evals=null --set total_steps=1`: reads
the same IDX files and computes one step of the same CNN on 8x8 digits with batch 64.
"""
import pathlib
import struct

import torch
import torch.nn.functional as F
from torch import nn

data = pathlib.Path(__file__).resolve().parents[2] / "lib/input/sources/digits"


def idx(name, header):
    raw = (data / name).read_bytes()
    count = struct.unpack(">I", raw[4:8])[0]
    return torch.frombuffer(bytearray(raw[header:]), dtype=torch.uint8).reshape(count, -1)


images = idx("train-images-idx3-ubyte", 16).reshape(-1, 1, 8, 8)
labels = idx("train-labels-idx1-ubyte", 8).reshape(-1).long()
torch.set_num_threads(2)
net = nn.Sequential(
    nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.AvgPool2d(2),
    nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.AvgPool2d(2),
    nn.Flatten(), nn.Linear(64 * 2 * 2, 256), nn.ReLU(), nn.Linear(256, 10))
optimizer = torch.optim.AdamW(net.parameters(), lr=2e-3, weight_decay=1e-4)
index = torch.randperm(len(images))[:64]
loss = F.cross_entropy(net(images[index].float().div(127.5).sub(1)), labels[index])
loss.backward()
optimizer.step()
print(f"{loss.item():.4f}")
