#!/usr/bin/env python3
"""clock_jumps.py [--runs N]: trains while the time of day jumps back and forth by up to a week.

Each call that asks for the time of day gets another one. Then these must hold:

  1. A run with intervals in steps ends like an undisturbed one.
  2. A run with intervals in seconds saves and logs neither more often than these say, nor less than a
     quarter as often as the undisturbed run.
  3. A run with a time limit neither stops before it, nor goes on for long after it.

Prints a line for each, and ends with 1 if anything is wrong; the workdir is then kept.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time

import random_kills as kills
from io_errors import HERE, difference

INTERVAL, LIMIT, TIMEOUT = 0.25, 6, 400  # seconds
BY_SECONDS = kills.CONFIG.replace("total_steps: 120", "total_steps: 6000").replace(
    "log_training_steps: 5", f"log_training_seconds: {INTERVAL}").replace(
    "ckpt_steps: 7\nkeep_ckpt_steps: 50", f"ckpt_seconds: {INTERVAL}").replace("log_steps: 4", "log_steps: 6000")


class Runs:
    def __init__(self, binary, folder):
        self.binary, self.folder = binary, folder
        self.shim = os.path.join(folder, "clock_jumps.so")
        subprocess.run(["gcc", "-O1", "-shared", "-fPIC", "-o", self.shim,
                        os.path.join(HERE, "clock_jumps.c"), "-ldl"], check=True)

    def train(self, name, config=kills.CONFIG, flags=(), jumps=True):
        """Returns the exit code, the workdir, what was printed, and how many seconds it took."""
        workdir = os.path.join(self.folder, name)
        with open(workdir + ".yaml", "w") as file:
            file.write(config)
        args = [self.binary, "--config", workdir + ".yaml", "--workdir", workdir, "--devices", "cpu:1", *flags]
        environment = dict(os.environ, **({"LD_PRELOAD": self.shim} if jumps else {}))
        began = time.monotonic()
        try:
            done = subprocess.run(args, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, env=environment, timeout=TIMEOUT)
        except subprocess.TimeoutExpired:
            return "nothing: it hangs", workdir, "", TIMEOUT
        return done.returncode, workdir, done.stdout.decode(errors="replace"), time.monotonic() - began


def same_state(runs, number):
    code, whole, printed, _ = runs.train(f"whole-{number}", jumps=False)
    if code != 0:
        return f"the undisturbed run ends with {code}: {printed[-300:]}"
    code, workdir, printed, _ = runs.train(f"steps-{number}")
    if code != 0:
        return f"ends with {code}: {printed[-300:]}"
    return difference(whole, workdir)


def same_intervals(runs, number):
    counts = []
    for jumps in (False, True):
        code, workdir, printed, seconds = runs.train(f"seconds-{number}-{jumps}", BY_SECONDS, jumps=jumps)
        if code != 0:
            return f"ends with {code}: {printed[-300:]}"
        counts.append((len(kills.rows(workdir)) / seconds, saves(workdir) / seconds))
    for what, whole, jumped in zip(("rows", "saves"), *counts):
        if jumped > 1 / INTERVAL + 1 or jumped < whole / 4 or whole < 1:
            return f"{what} a second: {whole:.2f}, with jumps {jumped:.2f}"
    return ""


def saves(workdir):
    with open(os.path.join(workdir, "log", "rank-0.log"), errors="replace") as file:
        return file.read().count("] checkpoint saved: ")


def same_limit(runs, number):
    endless = kills.CONFIG.replace("total_steps: 120", "total_steps: 1000000").replace(
        "ckpt_steps: 7", "ckpt_steps: 1000")
    code, _, printed, seconds = runs.train(f"limit-{number}", endless, ["--max-time", f"{LIMIT}s"])
    if code != 75 or not LIMIT <= seconds < LIMIT + 60:
        return f"ends with {code} after {seconds:.1f} s: {printed[-300:]}"
    return ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--binary", default=os.path.join(kills.ROOT, "build/release/bvtrain"))
    parser.add_argument("--runs", type=int, default=20)
    given = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="bvtrain-clock-")
    runs = Runs(given.binary, folder)
    good = True
    for name, check in (("intervals in steps", same_state), ("in seconds", same_intervals),
                        ("a time limit", same_limit)):
        wrong = [fault for number in range(given.runs) if (fault := check(runs, number))]
        good &= kills.told(f"{name}: {given.runs} runs", wrong)
    if good:
        shutil.rmtree(folder)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
