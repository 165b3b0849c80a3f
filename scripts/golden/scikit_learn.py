#!/usr/bin/env python3
"""Makes test/golden/scikit_learn.npz: outputs, labels and their metrics by scikit-learn.

    python3 -m venv venv && venv/bin/pip install numpy==2.4.6 scikit-learn==1.9.1
    venv/bin/python scripts/golden/scikit_learn.py test/golden/scikit_learn.npz

Each case <kind><i> has logits (or predicted), truth (or labels), and `metrics`: the values of NAMES[kind],
one after the other, those of classes and targets last. <one><i> has also `confusion`, [truth][guess]. What scikit-learn leaves undefined (the AUROC of a
class that does not occur, or that all examples have) is left out of means, and NaN for the class itself.
"""
import sys
import warnings

import numpy as np
from sklearn import metrics

warnings.simplefilter("ignore")

AVERAGES = [f"{name}_{average}" for name in ("precision", "recall", "f1") for average in ("macro", "micro", "weighted")]
OF_CLASSES = ["accuracy", *AVERAGES, "auroc_macro", "auroc_weighted", "map", "ap_weighted", "log_loss", "brier"]
PER_CLASS = [name + "_per_class" for name in ("precision", "recall", "f1", "auroc", "ap")]
NAMES = {
    "one": OF_CLASSES + ["balanced_accuracy", "top1", "top2"] + PER_CLASS,
    "several": OF_CLASSES + PER_CLASS,
    "numbers": [name + of for of in ("", "_per_target") for name in ("mae", "mse", "rmse", "r2")],
}


def means(values, weights):
    values = np.array(values)
    known = ~np.isnan(values)
    macro = values[known].mean() if known.any() else np.nan
    weighted = known.any() and weights[known].sum() > 0
    return macro, np.average(values[known], weights=weights[known]) if weighted else np.nan


def areas(found, positive, scores):
    """Adds the areas of each class; positive and scores are (n, classes)."""
    n, classes = positive.shape
    aurocs, aps = [], []
    for c in range(classes):
        count = positive[:, c].sum()
        aurocs.append(metrics.roc_auc_score(positive[:, c], scores[:, c]) if 0 < count < n else np.nan)
        aps.append(metrics.average_precision_score(positive[:, c], scores[:, c]) if count else np.nan)
    support = positive.sum(0)
    found["auroc_macro"], found["auroc_weighted"] = means(aurocs, support)
    found["map"], found["ap_weighted"] = means(aps, support)
    found["auroc_per_class"], found["ap_per_class"] = aurocs, aps


def averages(found, truth, guess, classes):
    for average in ("macro", "micro", "weighted"):
        values = metrics.precision_recall_fscore_support(truth, guess, average=average, zero_division=0)
        for name, value in zip(("precision", "recall", "f1"), values):
            found[f"{name}_{average}"] = value
    values = metrics.precision_recall_fscore_support(truth, guess, labels=range(classes), zero_division=0)
    for name, value in zip(("precision", "recall", "f1"), values):
        found[f"{name}_per_class"] = value
    found["accuracy"] = metrics.accuracy_score(truth, guess)


def one_class(random, n, classes, present, repeated):
    logits = (2 * random.standard_normal((n, classes))).astype(np.float32)
    for _ in range(repeated):  # ties
        logits[random.integers(n)] = logits[random.integers(n)]
    truth = random.integers(present, size=n)
    logits[np.arange(n), truth] += np.float32(0.7)
    z = logits.astype(np.float64)
    p = np.exp(z - z.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    guess = z.argmax(1)
    found = {"logits": logits, "truth": truth}
    averages(found, truth, guess, classes)
    found["confusion"] = metrics.confusion_matrix(truth, guess, labels=range(classes))
    found["balanced_accuracy"] = metrics.balanced_accuracy_score(truth, guess)
    order = np.argsort(-z, axis=1, kind="stable")
    for k in (1, 2):
        found[f"top{k}"] = (order[:, :k] == truth[:, None]).any(1).mean()
    one_hot = np.eye(classes)[truth]
    areas(found, one_hot, p)
    found["log_loss"] = metrics.log_loss(truth, p, labels=list(range(classes)))
    found["brier"] = metrics.brier_score_loss(truth, p, labels=list(range(classes)))
    return found


def several_classes(random, n, classes, share):
    labels = (random.random((n, classes)) < share).astype(np.float32)
    logits = (np.round(4 * (random.standard_normal((n, classes)) + 0.8 * labels)) / 4).astype(np.float32)
    z = logits.astype(np.float64)
    p = 1 / (1 + np.exp(-z))
    guess = p >= 0.5
    truth = labels.astype(int)
    found = {"logits": logits, "labels": labels}
    averages(found, truth, guess, classes)
    areas(found, truth, z)
    found["log_loss"] = np.mean([metrics.log_loss(truth[:, c], p[:, c], labels=[0, 1]) for c in range(classes)])
    found["brier"] = np.mean([metrics.brier_score_loss(truth[:, c], p[:, c], pos_label=1) for c in range(classes)])
    return found


def numbers(random, n, targets, constant):
    truth = (100 * random.standard_normal((n, targets)) + 1000).astype(np.float32)
    predicted = (truth + 10 * random.standard_normal((n, targets))).astype(np.float32)
    if constant:
        truth[:, 0] = np.float32(0.1)
    found = {"labels": truth, "predicted": predicted}
    t, p = truth.astype(np.float64), predicted.astype(np.float64)
    for name, of in (("mae", metrics.mean_absolute_error), ("mse", metrics.mean_squared_error),
                     ("rmse", metrics.root_mean_squared_error), ("r2", metrics.r2_score)):
        found[name] = of(t, p)
        found[name + "_per_target"] = of(t, p, multioutput="raw_values")
    return found


def main():
    random = np.random.default_rng(7)
    cases = {}
    sizes = [(1000, 4, 4, 300), (200, 7, 5, 20), (33, 2, 2, 5), (7, 3, 3, 2), (2, 3, 2, 0), (1, 3, 3, 0),
             (150, 2, 2, 40), (20, 2, 1, 0)]
    for i, case in enumerate(sizes):
        cases[f"one{i}"] = one_class(random, *case)
    for i, case in enumerate([(1000, 3, 0.3), (60, 5, [0.5, 0.1, 0, 0.9, 1]), (9, 2, 0.5), (1, 3, 0.5)]):
        cases[f"several{i}"] = several_classes(random, *case)
    for i, case in enumerate([(1000, 1, False), (150, 3, True), (2, 1, False), (1, 1, False)]):
        cases[f"numbers{i}"] = numbers(random, *case)
    arrays = {}
    for case, found in cases.items():
        names = NAMES[case.rstrip("0123456789")]
        arrays[f"{case}/metrics"] = np.concatenate([np.ravel(found.pop(name)) for name in names]).astype(np.float64)
        arrays.update({f"{case}/{name}": value for name, value in found.items()})
    np.savez_compressed(sys.argv[1], **arrays)


main()
