#!/usr/bin/env python3
"""Computes a run's fewshot_lsr, knn and calibration metrics again with NumPy, and compares.

    check_evaluators.py WORKDIR STEP

Uses the representations that the run saved. The run must have the evaluators `fewshot` (prefix '',
datasets named digits, several l2_reg), `knn`, `majority` (a knn), `calibration`, and `train` and
`test` (both of type save, with outputs [logits, pre_logits] of the same data). The formulas are those
of big_vision's evaluators/fewshot_lsr.py.
"""

import json
import re
import sys

import numpy as np


def fewshot(x_train, y_train, x_test, y_test, seed, shots, l2):
    rng = np.random.default_rng(seed)
    classes = range(y_train.max() + 1)
    members = [rng.permutation(np.where(y_train == c)[0]) for c in classes]
    rows = np.concatenate([m[:shots] for m in members])
    x, y = x_train[rows], 2 * np.eye(len(members))[y_train[rows]] - 1
    mean, std = x.mean(0, keepdims=True), x.std(0, keepdims=True) + 1e-5
    x, x_test = (
        np.pad((z - mean) / std, ((0, 0), (0, 1)), constant_values=100.0) for z in (x, x_test)
    )
    if x.shape[0] >= x.shape[1]:
        eigs, q = np.linalg.eigh(x.T @ x)
        w = (q / (eigs + l2)) @ (q.T @ (x.T @ y))
    else:
        eigs, q = np.linalg.eigh(x @ x.T)
        w = (x.T @ q / (eigs + l2)) @ (q.T @ y)
    return np.mean(np.argmax(x_test @ w, axis=1) == y_test)


def knn(x_train, y_train, x_test, y_test, k, weight):
    unit = [x / np.linalg.norm(x, axis=1, keepdims=True) for x in (x_train, x_test)]
    similar = unit[1] @ unit[0].T
    nearest = np.argsort(-similar, axis=1, kind="stable")[:, :k]
    votes = np.zeros((len(x_test), y_train.max() + 1))
    for j in range(k):
        rows = np.arange(len(x_test))
        votes[rows, y_train[nearest[:, j]]] += weight(similar[rows, nearest[:, j]])
    return np.mean(votes.argmax(1) == y_test)


def ece(logits, labels, bins):
    p = np.exp(logits - logits.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    sure, right = p.max(1), p.argmax(1) == labels
    total = 0
    for b in range(bins):
        mine = (sure > b / bins) & (sure <= (b + 1) / bins)
        if mine.any():
            total += mine.mean() * abs(right[mine].mean() - sure[mine].mean())
    return total


def main(workdir, step):
    rows = [json.loads(line) for line in open(f"{workdir}/metrics.jsonl")]
    row = next(r for r in rows if r["step"] == step)
    data = []
    for name in ("train", "test"):
        saved = np.load(f"{workdir}/{name}-{step:09d}.npz")
        data += [saved["outputs/pre_logits"].astype(np.float64), saved["inputs/label"]]
    logits = saved["outputs/logits"].astype(np.float64)
    checked, problems = 0, 0
    for name, value in row.items():
        if found := re.fullmatch(r"[az]/digits_(\d+)shot-seed-(\d+)-l2-(.*)", name):
            expected = fewshot(*data, int(found[2]), int(found[1]), float(found[3]))
        elif found := re.fullmatch(r"(knn|majority)/prec@1_k=(\d+)", name):
            weight = (lambda s: np.exp(s / 0.07)) if found[1] == "knn" else np.ones_like
            expected = knn(*data, int(found[2]), weight)
        elif name == "calibration/ece":
            expected = ece(logits, data[3], 15)
        else:
            continue
        checked += 1
        # Rounding may change the result for one example.
        if abs(value - expected) > (1e-9 if name == "calibration/ece" else 1.001 / len(logits)):
            problems += 1
            print(f"{name}: {value}, expected {expected}")
    print(f"{checked} metrics of {workdir} at step {step}, {problems} problems")
    return problems > 0 or checked == 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
