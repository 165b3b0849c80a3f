#!/usr/bin/env python3
"""signals.py [--each N] [PHASE...]: sends signals to real runs in each of nine phases.

Each run gets one signal, at a random moment of the phase. Then these must hold:

  1. It ends with the documented code: 130 after SIGINT, 143 after SIGTERM and SIGHUP, 75 after SIGUSR1.
     SIGPIPE changes nothing. A run that had finished before ends with 0.
  2. The same command, given again, ends with 0, and the rows and checkpoints are those of an
     undisturbed run.

Before the program's first instruction the system's own rule holds: the signal kills the process, or
SIGPIPE does. In the phase "loading" that counts as correct.

Prints a line for each phase, and ends with 1 if anything is wrong; the workdir is then kept.
"""

import argparse
import collections
import glob
import multiprocessing
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import random_kills as kills
from io_errors import difference

CODES = {"SIGINT": 130, "SIGTERM": 143, "SIGHUP": 143, "SIGUSR1": 75, "SIGPIPE": 0}
HANDLED = "handled"  # the moment at which the program handles signals
# By name: the number of processes, what prolongs the phase (BVTRAIN_SLEEP_AT), what shows that it has
# begun (a file pattern, HANDLED, or the start of the process), and the seconds until the signal.
# Step 100 is kept, so its folder stays.
PHASES = {
    "loading": (1, "", "", (0, 0.1)),
    "building": (1, "start.load:1:0.5", HANDLED, (0, 0.3)),
    "steps": (1, "", "metrics.jsonl", (0, 0.5)),
    "writing": (1, "ckpt.shard_written:1+:0.2", "ckpt/step-*.tmp/state-*", (0, 0.2)),
    "commit": (1, "ckpt.renamed:1+:0.2", "ckpt/step-*[0-9]", (0, 0.2)),
    "best": (1, "ckpt.best_written:1+:0.2", "ckpt/best.tmp", (0, 0.2)),
    "evaluation": (1, "eval.rank0:2:0.4", "metrics.jsonl", (0, 0.4)),
    "end": (1, "", "ckpt/step-100", (0, 0.1)),
    "ranks": (2, "", "metrics.jsonl", (0, 0.8)),
}


def handles_signals(pid):
    try:
        with open(f"/proc/{pid}/status") as file:
            caught = next(line for line in file if line.startswith("SigCgt:"))
        return bool(int(caught.split()[1], 16) >> (signal.SIGTERM - 1) & 1)
    except (OSError, StopIteration):
        return False


def await_phase(process, workdir, sign):
    while sign and process.poll() is None:
        if handles_signals(process.pid) if sign == HANDLED else glob.glob(os.path.join(workdir, sign)):
            return
        time.sleep(0.002)


def trial(job):
    """Returns what happened ("75", "finished", "killed") and what is wrong."""
    _, _, name, phase, _ = job
    for attempt in range(3):
        what, wrong = try_once(job, attempt)
        # On a busy machine a run may finish before the signal comes. SIGPIPE ends no run.
        if what != "finished" or phase == "end" or name == "SIGPIPE":
            break
    return what, wrong


def try_once(job, attempt):
    binary, folder, name, phase, number = job
    processes, sleep, sign, (low, high) = PHASES[phase]
    workdir = os.path.join(folder, f"{phase}-{name}-{number}-{attempt}")
    args = [binary, "--config", os.path.join(folder, "c.yaml"), "--workdir", workdir,
            "--devices", f"cpu:{processes}"]
    environment = dict(os.environ)
    if sleep:
        environment["BVTRAIN_SLEEP_AT"] = sleep
    with open(workdir + ".log", "wb") as log:
        process = subprocess.Popen(args, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment)
        await_phase(process, workdir, sign)
        time.sleep(random.Random(f"{phase}{name}{number}-{attempt}").uniform(low, high))
        finished = process.poll() is not None
        if not finished:
            process.send_signal(getattr(signal, name))
        try:
            code = process.wait(120)
        except subprocess.TimeoutExpired:
            process.kill()
            return "hangs", f"{phase}, {name}: hangs; see {workdir}"
        again = subprocess.run(args, stdin=subprocess.DEVNULL, stdout=log, stderr=log).returncode
    killed = code == -getattr(signal, name)
    if code not in (0, CODES[name]) and not (killed and phase == "loading"):
        return str(code), f"{phase}, {name}: ends with {code}; see {workdir}"
    if again != 0:
        return str(code), f"{phase}, {name}: the next start ends with {again}; see {workdir}"
    reference = os.path.join(folder, f"whole-{processes}")
    if wrong := difference(reference, workdir):
        return str(code), f"{phase}, {name}: {wrong}; see {workdir}"
    shutil.rmtree(workdir)
    return ("finished" if code == 0 else "killed" if killed else str(code)), ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--binary", default=os.path.join(kills.ROOT, "build/release/bvtrain"))
    parser.add_argument("--each", type=int, default=100, help="runs for each phase and signal")
    parser.add_argument("phases", nargs="*", choices=[[], *PHASES], metavar="PHASE", help=" ".join(PHASES))
    given = parser.parse_args()
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup ignores it, and so would the runs
    folder = tempfile.mkdtemp(prefix="bvtrain-signals-")
    for processes in (1, 2):
        kills.train_undisturbed(given.binary, folder, f"whole-{processes}", processes)
    good = True
    with multiprocessing.Pool(os.cpu_count()) as pool:
        for phase in given.phases or PHASES:
            jobs = [(given.binary, folder, name, phase, n) for name in CODES for n in range(given.each)]
            ends, late, wrong = collections.Counter(), collections.Counter(), []
            for job, (what, fault) in zip(jobs, pool.imap(trial, jobs)):
                ends[what] += 1
                late[job[2]] += what == "finished"
                if fault:
                    wrong.append(fault)
            # A signal that comes too late proves nothing. SIGPIPE ends no run, and at the end runs do finish.
            for name in CODES:
                if phase != "end" and name != "SIGPIPE" and late[name] > given.each / 2:
                    wrong.append(f"{phase}, {name}: {late[name]} runs had finished before the signal came")
            good &= kills.told(f"{phase}: {len(jobs)} signals, ends {dict(sorted(ends.items()))}", wrong)
    if good:
        shutil.rmtree(folder)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
