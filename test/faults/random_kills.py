#!/usr/bin/env python3
"""random_kills.py [--kills N] [--seed S] [VARIANT...]: kills real runs at random moments.

Each variant is trained once without a kill. Then it is trained again and again with kill -9 at
random moments: of all its processes, of the launcher alone, or of one rank. After each kill the same
command is given again, until the run finishes. At the end these must be equal to the undisturbed
run: the state of the last checkpoint and of ckpt/best, bit for bit; and the rows of metrics.jsonl,
each once, except for times and memory. ckpt/best must be that of the best row.

A run of the variants "long" and "long_ranks" is killed again and again after few steps, 50 times and
more in one run.

Prints a line for each variant, and ends with 1 if anything differs; the workdir is then kept.
"""

import argparse
import json
import math
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# No save is skipped, however slow the disk is (lib/util/crash_point.h).
os.environ.setdefault("BVTRAIN_SAVE_BUDGET", "1e6")
PP = 'value_range(-1, 1)|onehot(10, key="label", key_result="labels")|keep("image", "labels")'
CONFIG = f"""
num_classes: 10
total_steps: 120
log_training_steps: 5
ckpt_steps: 7
keep_ckpt_steps: 50
input: {{data: {{name: digits, split: train}}, batch_size: 64, pp: '{PP}'}}
model_name: cnn
model: {{widths: [8], dropout: 0.1}}
loss: softmax_xent
optax_name: scale_by_adam
lr: 0.02
mixup: {{p: 0.1}}
compute_threads: 1
evals:
  test: {{type: classification, data: {{name: digits, split: test}}, pp_fn: '{PP}',
         loss_name: softmax_xent, log_steps: 4}}
best: [{{metric: test/loss}}, {{metric: test/prec@1, name: top}}]
"""
VIT = ["model_name=vit", "model={variant: mu/4, pool_type: gap, posemb: learn}", "total_steps=60"]
CIFAR_PP = ('pad_to_shape([40, 40, 3], where="both")|random_crop(32)|flip_lr|value_range(-1, 1)'
            '|onehot(10, key="label", key_result="labels")|keep("image", "labels")')
CIFAR = "{{name: cifar, data_dir: FOLDER/cifar, split: {}}}"
# By name: config values, in which FOLDER is the variant's folder, and the number of processes.
VARIANTS = {
    "plain": ([], 1),
    "ema": (["ema={decay: 0.9}", "evals.test.ema=true"], 1),
    "bf16": (["precision=bf16", "total_steps=60"], 1),
    "accumulation": (["grad_accum_steps=4"], 1),
    "one_kept": (["max_checkpoints_to_keep=1", "keep_ckpt_steps=0"], 1),
    "two_ranks": ([], 2),
    "four_ranks": (["total_steps=60"], 4),
    "zero1": (["sharding_strategy=zero1", "ema={decay: 0.9}"], 2),
    "fsdp": (['sharding_strategy=[[".*", "fsdp(axis=\'data\', min_size_to_shard_mb=0)"]]', *VIT], 2),
    # The run ends by early_stop; a second evaluator runs after that of the metric.
    "early": (["lr=0.0", "early_stop={metric: test/loss, patience_steps: 80}",
               "evals.zlate={type: classification, data: {name: digits, split: 'test[:50%]'}, "
               f"pp_fn: '{PP}', loss_name: softmax_xent, log_steps: 4}}"], 2),
    # Batch norm, whose statistics are state, and random crops.
    "cifar": (["model_name=resnet_cifar", "model={norm: batch, width: 4}", "total_steps=40",
               f"input.data={CIFAR.format('train')}", f"input.pp={CIFAR_PP}", "ema={decay: 0.9}",
               f"evals.test.data={CIFAR.format('test')}"], 1),
    "long": (["total_steps=5000", "ckpt_steps=20", "evals.test.log_steps=100"], 1),
    "long_ranks": (["total_steps=2500", "ckpt_steps=20", "evals.test.log_steps=100"], 2),
}
# For the variants that begin with "long": kills per run, and the maximum seconds before each.
LONG_KILLS, LONG_LENGTH = 55, 1.0


def write_cifar(folder):
    """Writes data in the format of CIFAR-10 whose labels can be learnt."""
    os.mkdir(folder)
    rng = random.Random(1)
    for name, count in [(f"data_batch_{i}.bin", 200) for i in range(1, 6)] + [("test_batch.bin", 200)]:
        with open(os.path.join(folder, name), "wb") as file:
            for _ in range(count):
                label = rng.randrange(10)
                file.write(bytes([label]) + bytes(min(255, b // 2 + 12 * label)
                                                  for b in rng.randbytes(3072)))


def command(binary, folder, workdir, variant):
    values, processes = VARIANTS[variant]
    args = [binary, "--config", os.path.join(folder, "c.yaml"), "--workdir", workdir,
            "--devices", f"cpu:{processes}"]
    for value in values:
        args += ["--set", value.replace("FOLDER", folder)]
    return args


def train_undisturbed(binary, folder, name, processes=1):
    """Writes the config and trains it once into a workdir of `folder`, for comparison."""
    config = os.path.join(folder, "c.yaml")
    with open(config, "w") as file:
        file.write(CONFIG)
    subprocess.run([binary, "--config", config, "--workdir", os.path.join(folder, name), "--devices",
                    f"cpu:{processes}"], stdin=subprocess.DEVNULL, capture_output=True, check=True)


def start(args, log):
    return subprocess.Popen(args, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                            start_new_session=True)


def children(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            return [int(word) for word in file.read().split()]
    except OSError:
        return []


def alive(session):
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat") as file:
                fields = file.read().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if fields[0] != "Z" and int(fields[3]) == session:
            return True
    return False


def kill_some(process, rng):
    """Kills one, the first or all processes of the run; returns which."""
    ranks = children(process.pid)
    what = rng.choice(["all", "launcher", "rank"]) if ranks else "all"
    try:
        if what == "all":
            os.killpg(process.pid, signal.SIGKILL)
        else:
            os.kill(process.pid if what == "launcher" else rng.choice(ranks), signal.SIGKILL)
    except ProcessLookupError:
        return "too late"
    return what


def wait_all(process, seconds=120):
    """Waits until no process of the run is left."""
    end = time.monotonic() + seconds
    process.wait(timeout=seconds)
    while alive(process.pid):
        if time.monotonic() > end:
            raise RuntimeError("a process of the run does not end")
        time.sleep(0.02)


REPEATABLE = ("training_loss", "l2_grads", "l2_params", "l2_updates", "num_params", "test/",
              "zlate/", "global_schedule", "epoch", "examples_seen")


def rows(workdir):
    out = []
    with open(os.path.join(workdir, "metrics.jsonl")) as file:
        for line in file:
            row = json.loads(line, parse_float=str)
            out.append({k: v for k, v in row.items() if k == "step" or k.startswith(REPEATABLE)})
    return out


def shards(folder):
    out = {}
    for name in sorted(os.listdir(folder)):
        if name.endswith(".safetensors"):
            with open(os.path.join(folder, name), "rb") as file:
                out[name] = file.read()
    return out


def newest(workdir):
    ckpt = os.path.join(workdir, "ckpt")
    steps = [int(name[5:]) for name in os.listdir(ckpt) if name[5:].isdigit() and name.startswith("step-")]
    return os.path.join(ckpt, f"step-{max(steps)}")


def best_of_rows(all_rows, metric, higher):
    found = None
    for row in all_rows:
        if metric not in row:
            continue
        value = float(row[metric])
        if math.isfinite(value) and (found is None or (value > found[1] if higher else value < found[1])):
            found = (int(row["step"]), value)
    return found


def fault(workdir, reference):
    """What differs from the undisturbed run; an empty text if nothing does."""
    mine, theirs = rows(workdir), rows(reference)
    steps = [int(row["step"]) for row in mine]
    if steps != sorted(set(steps)):
        return "a row is there twice, or out of order"
    if mine != theirs:
        odd = next((a, b) for a, b in zip(mine + [None], theirs + [None]) if a != b)
        return f"rows differ: {odd}"
    if shards(newest(workdir)) != shards(newest(reference)):
        return "the last checkpoint differs"
    for name, metric, higher in (("best", "test/loss", False), ("best-top", "test/prec@1", True)):
        folder = os.path.join("ckpt", name)
        with open(os.path.join(workdir, folder, "manifest.json")) as file:
            best = json.load(file)["meta"]["best"]
        if (best["step"], best["value"]) != best_of_rows(mine, metric, higher):
            return f"{folder} is of step {best['step']}, the rows say {best_of_rows(mine, metric, higher)}"
        if shards(os.path.join(workdir, folder)) != shards(os.path.join(reference, folder)):
            return f"{folder} differs"
    left = [n for n in os.listdir(os.path.join(workdir, "ckpt")) if ".tmp" in n or n.startswith((".trash", ".old"))]
    return f"left behind: {left}" if left else ""


def train_to_end(args, log):
    process = start(args, log)
    wait_all(process, 600)
    return process.returncode


def trial(binary, folder, variant, length, rng, most):
    """Trains once with up to `most` kills, each at most `length` seconds after a start. Returns the
    kills by kind, and the fault."""
    workdir = os.path.join(folder, "w")
    args = command(binary, folder, workdir, variant)
    kills = {}
    with open(os.path.join(folder, "log"), "wb") as log:
        for _ in range(most):
            process = start(args, log)
            end = time.monotonic() + rng.uniform(0.05, length)
            while process.poll() is None and time.monotonic() < end:
                time.sleep(0.005)
            if process.poll() is not None:
                wait_all(process)
                if process.returncode != 0:
                    return kills, f"a start that nobody has killed ends with code {process.returncode}"
                break
            what = kill_some(process, rng)
            kills[what] = kills.get(what, 0) + 1
            wait_all(process)
        code = train_to_end(args, log)
    if code != 0:
        return kills, f"the run ends with code {code}"
    found = fault(workdir, os.path.join(folder, "reference"))
    if not found:
        shutil.rmtree(workdir)
    return kills, found


def test(binary, variant, kills, rng):
    folder = tempfile.mkdtemp(prefix=f"bvtrain-kills-{variant}-")
    with open(os.path.join(folder, "c.yaml"), "w") as file:
        file.write(CONFIG)
    if variant == "cifar":
        write_cifar(os.path.join(folder, "cifar"))
    long = variant.startswith("long")
    began = time.monotonic()
    with open(os.path.join(folder, "reference.log"), "wb") as log:
        code = train_to_end(command(binary, folder, os.path.join(folder, "reference"), variant), log)
    if code != 0:
        print(f"{variant}: the undisturbed run ends with code {code}; see {folder}")
        return False
    length = time.monotonic() - began
    total, runs, most_in_one = {}, 0, 0
    while sum(total.values()) < kills:
        most = LONG_KILLS if long else min(rng.randint(1, 60), kills - sum(total.values()))
        some, found = trial(binary, folder, variant, LONG_LENGTH if long else length, rng, most)
        runs += 1
        most_in_one = max(most_in_one, sum(some.values()))
        for what, count in some.items():
            total[what] = total.get(what, 0) + count
        if found:
            print(f"{variant}: {found}; see {folder}")
            return False
    shutil.rmtree(folder)
    by_kind = ", ".join(f"{count} {what}" for what, count in sorted(total.items()))
    print(f"{variant}: {sum(total.values())} kills ({by_kind}) in {runs} runs, at most {most_in_one} "
          "in one, all equal", flush=True)
    return True


def told(line, wrong):
    """Prints the result of one kind of trials and each fault. Returns whether there was none."""
    print(f"{line}; {len(wrong)} wrong", flush=True)
    for fault_found in wrong:
        print("  " + fault_found, flush=True)
    return not wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--binary", default=os.path.join(ROOT, "build/release/bvtrain"))
    parser.add_argument("--kills", type=int, default=1000, help="over all variants")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("variants", nargs="*", choices=[[], *VARIANTS], metavar="VARIANT",
                        help=" ".join(VARIANTS))
    given = parser.parse_args()
    variants = given.variants or list(VARIANTS)
    rng = random.Random(given.seed)
    each = math.ceil(given.kills / len(variants))
    good = [test(given.binary, variant, each, rng) for variant in variants]
    sys.exit(0 if all(good) else 1)


if __name__ == "__main__":
    main()
