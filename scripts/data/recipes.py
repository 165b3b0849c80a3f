#!/usr/bin/env python3
"""recipes.py [--binary F] [--folder D] [RECIPE...]: runs the recipes of configs/big_vision on TFDS folders.

Makes TFDS folders with the names, splits and features of the data sets that the recipes read, in D (default:
a temporary folder; 40 MB). Every image has one pixel, and only ten classes occur. Trains each recipe for one step
with a small model, and runs all its evaluators. The data, the preprocessing and the evaluators are those of
the recipe. Needs about ten minutes on two cores, most of them for the 56,320 images that the two recipes
of ImageNet-21k evaluate. Ends with 1 if a recipe fails or an evaluator has no metric.
"""

import argparse
import glob
import json
import os
import struct
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.append(os.path.join(ROOT, "scripts/bench"))
from index import JPEG, field, masked_crc  # noqa: E402

# Data set: its version, the number of classes, and the number of examples of each split.
DATA_SETS = {
    "imagenet2012": ("5.1.0", 1000, {"train": 1000, "validation": 50}),
    "imagenet2012_real": ("1.0.0", 1000, {"validation": 50}),
    "imagenet_v2": ("3.0.0", 1000, {"test": 50}),
    "imagenet21k": ("1.0.0", 21843, {"full": 51300}),
    "cifar10": ("3.0.2", 10, {"train": 500, "test": 50}),
    "cifar100": ("3.0.2", 100, {"train": 500, "test": 50}),
    "caltech101": ("3.0.1", 102, {"train": 500, "test": 50}),
    "cars196": ("2.1.0", 196, {"train": 500, "test": 50}),
    "dtd": ("3.0.1", 47, {"train": 500, "test": 50}),
    "oxford_iiit_pet": ("4.0.0", 37, {"train": 500, "test": 50}),
    "uc_merced": ("2.0.0", 21, {"train": 1100}),
}
SMALL_MODELS = {"vit": ["model.variant=mu/16"], "mlp_mixer": ["model.variant=S/32"],
                "bit": ["model.depth=[1, 1, 1, 1]"], "bit_paper": ["model.depth=[1, 1, 1, 1]"]}
FEATURES = "tensorflow_datasets.core.features."


def record(labels):
    """A record of a TFRecord file: an example with the features of `labels`."""
    image = field(1, b"image") + field(2, field(1, field(1, JPEG)))
    content = field(1, image)
    for name, values in labels.items():
        content += field(1, field(1, name.encode()) + field(2, field(3, field(1, bytes(values)))))
    example = field(1, content)
    size = struct.pack("<Q", len(example))
    return (size + struct.pack("<I", masked_crc(size)) + example + struct.pack("<I", masked_crc(example)))


def write_data_set(root, name, version, classes, splits):
    folder = os.path.join(root, name, version)
    os.makedirs(folder)
    several = {"imagenet2012_real": "real_label", "imagenet21k": "labels"}.get(name)  # labels an image
    label = {"pythonClassName": FEATURES + "class_label_feature.ClassLabel",
             "classLabel": {"numClasses": str(classes)}}
    features = {"image": {"pythonClassName": FEATURES + "image_feature.Image",
                          "image": {"dtype": "uint8", "encodingFormat": "jpeg",
                                    "shape": {"dimensions": ["-1", "-1", "3"]}}},
                several or "label":
                    {"pythonClassName": FEATURES + "sequence_feature.Sequence",
                     "sequence": {"feature": label, "length": "-1"}} if several else label}
    with open(os.path.join(folder, "features.json"), "w") as file:
        json.dump({"pythonClassName": FEATURES + "features_dict.FeaturesDict",
                   "featuresDict": {"features": features}}, file)
    info = {"name": name, "version": version, "fileFormat": "tfrecord", "splits": []}
    records = [record({several: [i, (i + 1) % 10]} if several else {"label": [i]}) for i in range(10)]
    for split, count in splits.items():
        info["splits"].append({"name": split, "shardLengths": [str(count)],
                               "filepathTemplate": "{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}"})
        with open(os.path.join(folder, f"{name}-{split}.tfrecord-00000-of-00001"), "wb") as file:
            file.write(b"".join(records[i % 10] for i in range(count)))
    with open(os.path.join(folder, "dataset_info.json"), "w") as file:
        json.dump(info, file)


def evaluators(workdir):
    """Returns the names below `evals` in the config of a run."""
    lines = open(os.path.join(workdir, "config.yaml")).read().splitlines()
    names = []
    for line in lines[lines.index("evals:") + 1:]:
        if not line.startswith("  "):
            break
        if not line.startswith("   "):
            names.append(line.strip().split(":")[0])
    return names


def run(binary, config, workdir, data):
    """Returns the seconds and how many metrics each evaluator has, or what went wrong."""
    model = next(line.split()[1] for line in open(config) if line.startswith("model_name:"))
    settings = ["input.batch_size=8", *SMALL_MODELS[model]]
    if "total_steps: 0" not in open(config).read():
        settings.append("total_steps=1")
        settings.append("schedule={}")  # a warm-up of 10,000 steps does not fit
    if "imagenet21k" in open(config).read():  # its evaluators read 76,800 images
        settings += [f"evals.{name}.data.split=full[:50]" for name in ("test", "val", "train")]
    command = [binary, "--config", config, "--workdir", workdir]
    for setting in settings:
        command += ["--set", setting]
    begin = time.monotonic()
    ended = subprocess.run(command, stderr=subprocess.PIPE, text=True, env=dict(os.environ, TFDS_DATA_DIR=data))
    if ended.returncode != 0:
        return f"ended with {ended.returncode}: {(ended.stderr.strip().splitlines() or ['no output'])[-1]}"
    seconds = time.monotonic() - begin
    metrics = {name for line in open(os.path.join(workdir, "metrics.jsonl")) for name in json.loads(line)}
    starts = {"fewshot": "z/"}  # its prefix is ''
    metrics = {metric for metric in metrics if not metric.startswith("z/secs/")}
    counts = {name: sum(metric.startswith(starts.get(name, name + "/")) for metric in metrics)
              for name in evaluators(workdir)}
    silent = [name for name, count in counts.items() if count == 0]
    if silent or not counts:
        return f"no metrics of {', '.join(silent) or 'any evaluator'}"
    return seconds, ", ".join(f"{name} {count}" for name, count in counts.items())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--binary", default=os.path.join(ROOT, "build/release/bvtrain"))
    parser.add_argument("--folder")
    parser.add_argument("recipes", nargs="*", metavar="RECIPE", help="default: all")
    given = parser.parse_args()
    configs = sorted(glob.glob(os.path.join(ROOT, "configs/big_vision/*.yaml")))
    if given.recipes:
        configs = [os.path.join(ROOT, f"configs/big_vision/{name}.yaml") for name in given.recipes]
    wrong = 0
    with tempfile.TemporaryDirectory(prefix="bvtrain-recipes-", dir=given.folder) as folder:
        data = os.path.join(folder, "tfds")
        for name, (version, classes, splits) in DATA_SETS.items():
            write_data_set(data, name, version, classes, splits)
        for config in configs:
            name = os.path.splitext(os.path.basename(config))[0]
            result = run(given.binary, config, os.path.join(folder, name), data)
            failed = isinstance(result, str)
            wrong += failed
            print(f"{name}: {result}" if failed else f"{name}: {result[0]:.0f} s, metrics: {result[1]}", flush=True)
    print(f"{len(configs)} recipes, {wrong} failed")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
