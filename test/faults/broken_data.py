#!/usr/bin/env python3
"""broken_data.py [--binary B] [CASE...]: breaks files of the training data while a run reads them.

A run trains on 40 digits in each format. Once it is under way one file is damaged, deleted or
replaced. Then these must hold:

  1. A file that is read example by example and then damaged is noticed.
  2. Without skip_errors it ends with 3 and a line that names the file, with an offset or a row where a
     file holds many examples. Or it ends with 0 like an undisturbed run: a file that is open or mapped
     stays what it was when it is deleted or replaced.
  3. If it ended with 3, the file is put back, and the same command, given again, ends like an
     undisturbed run.
  4. With `skip_errors: true` it ends with 0, and what it left out is in skipped.jsonl and counted in
     the rows; or it ends like an undisturbed run. A file of arrays (npz) that is cut off, and a list
     of images that is empty, still end it with 3.

Prints a line for each case, and ends with 1 if anything is wrong; the workdir is then kept.
"""

import argparse
import json
import os
import random
import re
import shutil
import struct
import subprocess
import sys
import tarfile
import tempfile
import time

import random_kills as kills

ARCHIVE = os.path.join(kills.ROOT, "test/data/digits_40.tar.gz")
FEATURES = "features: {image: image/encoded, label: image/class/label}, verify: always"
# By name: the source, the op that decodes it, the broken file, and whether the file contains many
# examples.
SOURCES = {
    "image_folder": ("name: image_folder, data_dir: D/folder, split: train", "decode|", "folder/train/3/*", False),
    "tfrecord": (f"name: tfrecord, files: 'D/tfrecord/train-*', {FEATURES}", "decode|",
                 "tfrecord/train-00001-of-00002", True),
    "tfds": ("name: digits_40, data_dir: D/tfds, split: train, verify: always", "decode|",
             "tfds/digits_40/1.0.0/digits_40-train.tfrecord-00001-of-00002", True),
    "array_record": ("name: digits_40, data_dir: D/tfds_array_record, split: train, verify: always", "decode|",
                     "tfds_array_record/digits_40/1.0.0/digits_40-train.array_record-00001-of-00002", True),
    "webdataset": ("name: webdataset, urls: 'D/wds/train-{000..001}.tar'", "decode|", "wds/train-001.tar", True),
    "npz": ("name: npz, fname: D/train.npz", "", "train.npz", True),
    "csv": ("name: csv, fname: D/train.csv", "decode|", "folder/train/3/*", False),
    "csv_list": ("name: csv, fname: D/train.csv", "decode|", "train.csv", True),
    "jsonl": ("name: jsonl, fname: D/train.jsonl, fopen_keys: image", "decode|", "folder/train/3/*", False),
    "jsonl_list": ("name: jsonl, fname: D/train.jsonl, fopen_keys: image", "decode|", "train.jsonl", True),
    "idx": ("name: idx, data_dir: D/idx", "", "idx/train-images-idx3-ubyte", True),
    "cifar": ("name: cifar, data_dir: D/cifar", "", "cifar/data_batch_3.bin", True),
}
CONFIG = """
num_classes: 10
total_steps: 1500
log_training_steps: 50
ckpt_steps: 100
input: {data: {SOURCE}, batch_size: 8, threads: 1, SKIP pp: 'DECODEvalue_range(-1, 1)|onehot(10, key="label", key_result="labels")|keep("image", "labels")'}
model_name: cnn
model: {widths: [8]}
loss: softmax_xent
optax_name: scale_by_adam
lr: 0.01
compute_threads: 1
"""


def flip(path):
    """Turns bits over in the middle of the file."""
    with open(path, "r+b") as file:
        size = os.path.getsize(path)
        file.seek(size // 3)
        data = file.read(size // 3)
        file.seek(size // 3)
        file.write(bytes(b ^ 0x55 for b in data))


def cut_off(path):
    os.truncate(path, os.path.getsize(path) // 2)


def empty(path):
    os.truncate(path, 0)


def replace(path):
    """Another file takes its name, as an editor or rsync does it."""
    with open(path + ".new", "w") as file:
        file.write("<html>404 Not Found</html>\n" * 50)
    os.rename(path + ".new", path)


CHANGES = {"flip": flip, "cut_off": cut_off, "empty": empty, "delete": os.remove, "replace": replace}


DAMAGE = ("flip", "cut_off", "empty")
# The others keep what they have read: npz, idx and cifar their arrays, array_record the chunk of these
# few examples. csv_list reads its rows again, but a few flipped bits may make another valid row.
READ_AGAIN = ("image_folder", "tfrecord", "tfds", "webdataset", "csv", "jsonl", "jsonl_list")


def make_data(folder):
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(folder)
    data = os.path.join(folder, "digits_40")
    images = []
    for number in range(2):
        with tarfile.open(os.path.join(data, f"wds/train-{number:03}.tar")) as shard:
            for name in [n for n in shard.getnames() if n.endswith(".png")]:
                label = shard.extractfile(name[:-4] + ".cls").read().decode()
                path = os.path.join(data, "folder/train", label, name)
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with open(path, "wb") as file:
                    file.write(shard.extractfile(name).read())
                images.append((os.path.relpath(path, data), int(label)))
    with open(os.path.join(data, "train.csv"), "w") as file:
        file.write("image,label\n" + "".join(f"{name},{label}\n" for name, label in images))
    with open(os.path.join(data, "train.jsonl"), "w") as file:
        file.writelines(json.dumps({"image": name, "label": label}) + "\n" for name, label in images)
    kills.write_cifar(os.path.join(data, "cifar"))
    write_idx(os.path.join(data, "idx"))
    return data


def write_idx(folder):
    """Writes 40 images of 8x8 in the format of MNIST."""
    os.mkdir(folder)
    rng = random.Random(1)
    for name, shape, values in (("images-idx3", (40, 8, 8), rng.randbytes(40 * 64)),
                                ("labels-idx1", (40,), bytes(i % 10 for i in range(40)))):
        with open(os.path.join(folder, f"train-{name}-ubyte"), "wb") as file:
            file.write(struct.pack(f">BBBB{len(shape)}I", 0, 0, 8, len(shape), *shape) + values)


def victim(data, pattern):
    folder, name = os.path.split(os.path.join(data, pattern))
    return os.path.join(folder, sorted(os.listdir(folder))[0] if name == "*" else name)


class Run:
    def __init__(self, binary, folder, name, source, data, skip):
        self.workdir = os.path.join(folder, name)
        self.metrics = os.path.join(self.workdir, "metrics.jsonl")
        config = self.workdir + ".yaml"
        text, decode, _, _ = SOURCES[source]
        with open(config, "w") as file:
            file.write(CONFIG.replace("{SOURCE}", "{" + text.replace("D/", data + "/") + "}")
                       .replace("DECODE", decode).replace("SKIP", "skip_errors: true," if skip else ""))
        self.args = [binary, "--config", config, "--workdir", self.workdir, "--devices", "cpu"]
        self.environment = dict(os.environ, XDG_CACHE_HOME=os.path.join(folder, "cache"))

    def start(self):
        self.process = subprocess.Popen(self.args, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.PIPE, env=self.environment)
        return self

    def await_row(self):
        while self.process.poll() is None and not (os.path.exists(self.metrics) and os.path.getsize(self.metrics)):
            time.sleep(0.002)

    def last_step(self):
        if not os.path.exists(self.metrics):
            return 0
        with open(self.metrics) as file:
            whole = file.read().split("\n")[:-1]
        return int(json.loads(whole[-1])["step"]) if whole else 0

    def end(self):
        self.err = self.process.communicate(timeout=300)[1].decode(errors="replace")
        self.code = self.process.returncode
        return self.code


def state_differs(run, whole):
    mine, theirs = kills.newest(run.workdir), kills.newest(whole.workdir)
    return os.path.basename(mine) != os.path.basename(theirs) or kills.shards(mine) != kills.shards(theirs)


def trial(binary, folder, source, change, skip, data, whole):
    """Returns the exit code and what is wrong."""
    copy = os.path.join(folder, "copy")
    path = victim(data, SOURCES[source][2]).replace(data, copy, 1)
    for _ in range(5):
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(data, copy)  # with the same times, so that the index stays valid
        with open(path, "rb") as file:
            good = file.read()
        run = Run(binary, folder, f"{source}-{change}{'-skip' if skip else ''}", source, copy, skip)
        shutil.rmtree(run.workdir, ignore_errors=True)
        run.start().await_row()
        CHANGES[change](path)
        if run.last_step() <= 1000:
            break
        run.process.kill()  # too late, on a busy machine: the rest may be too short
        run.end()
    else:
        return 0, "the file broke too late, again and again"
    code = run.end()
    shown = os.path.relpath(path, copy)
    if source == "image_folder":
        shown = shown.split("/", 1)[1]
    if code == 0 and os.path.exists(skipped := os.path.join(run.workdir, "skipped.jsonl")):
        if not skip:
            return code, "ended with 0 although examples were left out"
        with open(skipped) as file:
            lines = [json.loads(line) for line in file]
        last = kills.rows(run.workdir)
        with open(os.path.join(run.workdir, "metrics.jsonl")) as file:
            counted = json.loads(file.readlines()[-1]).get("input/errors", 0)
        named = all(os.path.basename(shown) in line["example"] + line["reason"] for line in lines)
        if not last or counted < 1 or not named:
            return code, f"skipped {lines[:2]}, but counted {counted}"
        return "skipped", ""
    if code == 0 and source in READ_AGAIN and change in DAMAGE:
        return code, "the damage was not noticed"
    if code == 0:
        return code, "differs from the undisturbed run" if state_differs(run, whole) else ""
    all_lost = source == "npz" or change == "empty" and source in ("csv_list", "jsonl_list")
    if code != 3 or skip and not all_lost:
        return code, f"ended with {code}: {run.err[-400:]}"
    last = run.err.strip().splitlines()[-1]
    if os.path.basename(shown) not in last or SOURCES[source][3] and not re.search(r"offset|row|sample|:\d+: ", last):
        return code, f"does not name the file or the place: {last}"
    with open(path, "wb") as file:
        file.write(good)
    again = run.start().end()
    if again != 0 or state_differs(run, whole):
        return code, f"with the file back it ends with {again}, or not like the undisturbed run: {run.err[-300:]}"
    return code, ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--binary", default=os.path.join(kills.ROOT, "build/release/bvtrain"))
    parser.add_argument("cases", nargs="*", metavar="CASE", help="SOURCE or SOURCE:CHANGE; sources: "
                        + " ".join(SOURCES) + "; changes: " + " ".join(CHANGES))
    given = parser.parse_args()
    known = {*SOURCES, *(f"{source}:{change}" for source in SOURCES for change in CHANGES)}
    if unknown := set(given.cases) - known:
        parser.error(f"unknown: {' '.join(sorted(unknown))}")
    folder = tempfile.mkdtemp(prefix="bvtrain-data-")
    data = make_data(folder)
    good = True
    for source in SOURCES:
        changes = [c for c in CHANGES if not given.cases or source in given.cases or f"{source}:{c}" in given.cases]
        if not changes:
            continue
        whole = Run(given.binary, folder, f"{source}-whole", source, data, False).start()
        if whole.end() != 0:
            sys.exit(f"{source}: the undisturbed run fails: {whole.err[-500:]}")
        for change in changes:
            (code, wrong), (skipped, wrong_too) = (
                trial(given.binary, folder, source, change, skip, data, whole) for skip in (False, True))
            print(f"{source}, {change}: ends with {code}; with skip_errors {skipped}", flush=True)
            for line in filter(None, (wrong, wrong_too)):
                good = False
                print("  " + line, flush=True)
    if good:
        shutil.rmtree(folder)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
