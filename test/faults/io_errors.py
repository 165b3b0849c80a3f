#!/usr/bin/env python3
"""io_errors.py [--every N] [--until N] [--errors EIO,...] [VARIANT...]: lets each I/O call of a run fail.

A short run is trained once and its I/O calls in the workdir are counted: open, read, write, fsync,
rename, link, mkdir and others. Then it is trained again for each call and each error, and that one
call fails. Three things must hold:

  1. The run does not crash and does not hang.
  2. If it ends with 0, its last checkpoint, ckpt/best and rows are those of the undisturbed run.
  3. The same command, given again without an error, ends with 0 and with that same state.

EINTR and short writes must not be noticed at all. Prints a line for each variant, and ends with 1 if
anything differs; the workdir is then kept.
"""

import argparse
import collections
import errno
import multiprocessing
import os
import shutil
import subprocess
import sys
import tempfile

import random_kills as kills

HERE = os.path.dirname(os.path.abspath(__file__))
CONFIG = kills.CONFIG.replace("total_steps: 120", "total_steps: 8").replace(
    "ckpt_steps: 7", "ckpt_steps: 3").replace("keep_ckpt_steps: 50", "keep_ckpt_steps: 4")
VARIANTS = ("plain", "two_ranks", "zero1")
TIMEOUT = 120  # seconds
TRANSFERS = ("write", "pwrite64", "read", "pread64")
REPEATED = TRANSFERS + ("open", "open64", "fsync", "rename")  # calls that a signal may interrupt


def difference(whole, workdir):
    """What is wrong with a finished run. Files that could not be deleted do not count."""
    found = kills.fault(workdir, whole)
    return "" if found.startswith("left behind") else found


def build_library(folder):
    library = os.path.join(folder, "io_faults.so")
    subprocess.run(["gcc", "-O1", "-shared", "-fPIC", "-o", library,
                    os.path.join(HERE, "io_faults.c"), "-ldl"], check=True)


class Runs:
    """Runs of one variant, one after the other. Runs of another `name` may go on beside them."""

    def __init__(self, binary, folder, variant, name):
        self.binary, self.folder, self.variant = binary, folder, variant
        self.shim = os.path.join(folder, "io_faults.so")
        self.whole, self.workdir = os.path.join(folder, "whole"), os.path.join(folder, f"run-{name}")
        self.count = os.path.join(folder, f"count-{name}")
        self.log = os.path.join(folder, f"calls-{name}")
        self.printed = os.path.join(folder, f"log-{name}")

    def train(self, workdir, at=None, error="0", log=False):
        """Trains; `at`: the call that fails, or None for a run without the library."""
        environment = dict(os.environ, BVTRAIN_RETRY_AFTER="0.01")
        if at is not None:
            if os.path.exists(self.count):
                os.remove(self.count)
            environment.update(LD_PRELOAD=self.shim, IO_FAULTS_DIR=workdir,
                               IO_FAULTS_COUNT=self.count, IO_FAULTS_AT=str(at),
                               IO_FAULTS_ERROR=str(error))
            if log:
                environment["IO_FAULTS_LOG"] = self.log
        args = kills.command(self.binary, self.folder, workdir, self.variant)
        with open(self.printed, "wb") as out:
            process = subprocess.Popen(args, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                                       env=environment, start_new_session=True)
            try:
                return process.wait(TIMEOUT)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, 9)
                process.wait()
                return "hangs"

    def output(self):
        with open(self.printed, errors="replace") as file:
            return file.read()


def check(runs, at, error):
    """Trains with one failing call, then without. Returns the first exit code and what is wrong."""
    whole, workdir = runs.whole, runs.workdir
    shutil.rmtree(workdir, ignore_errors=True)
    code = runs.train(workdir, at, error)
    first = runs.output()
    if code == "hangs" or code < 0 or (128 <= code and code not in (130, 141, 143)):
        return code, f"ended with {code}: {first[-300:]}"
    if code == 2 and error == errno.EIO:
        return code, f"ended with {code}, as if the user had made a mistake: {first[-300:]}"
    harmless = error in ("short", errno.EINTR)
    if harmless and code != 0:
        return code, f"ended with {code} although the call can be repeated: {first[-300:]}"
    if code == 0 and (wrong := difference(whole, workdir)):
        return code, f"ended with 0, but {wrong}"
    again = runs.train(workdir)
    if again != 0:
        return code, f"ended with {code}, and the next start with {again}: {runs.output()[-300:]}"
    if wrong := difference(whole, workdir):
        return code, f"ended with {code}; after the next start {wrong}"
    return code, ""


def try_call(job):
    """Returns the exit code, a line that says what is wrong, and what had failed."""
    binary, folder, variant, at, call, error = job
    runs = Runs(binary, folder, variant, f"{at}-{error}")
    code, why = check(runs, at, error)
    failed = f"call {at} ({call}) with {error if error == 'short' else errno.errorcode[error]}"
    if why:
        return code, f"  {failed}: {why}; see {runs.workdir}", failed
    shutil.rmtree(runs.workdir)
    return code, "", failed


def try_variant(binary, variant, errors, every, until):
    folder = tempfile.mkdtemp(prefix=f"bvtrain-io-{variant}-")
    with open(os.path.join(folder, "c.yaml"), "w") as file:
        file.write(CONFIG)
    build_library(folder)
    runs = Runs(binary, folder, variant, "counted")
    if runs.train(runs.whole) != 0:
        sys.exit(f"{variant}: the undisturbed run fails: {runs.output()[-300:]}")
    runs.train(runs.workdir, at=0, log=True)
    with open(runs.log) as file:
        calls = [line.split(" ", 1)[0] for line in file]
    jobs = [(binary, folder, variant, at, calls[at - 1], error)
            for error in errors for at in range(1, min(until, len(calls)) + 1, every)
            if not (error == "short" and calls[at - 1] not in TRANSFERS
                    or error == errno.EINTR and calls[at - 1] not in REPEATED)]
    codes, wrong, unusual = collections.Counter(), [], []
    with multiprocessing.Pool(os.cpu_count()) as pool:
        for code, line, failed in pool.imap_unordered(try_call, jobs):
            codes[code] += 1
            if code not in (0, 5):  # nothing detected, or a failed write
                unusual.append(f"{failed}: {code}")
            if line:
                wrong.append(line)
    print(f"{variant}: {len(calls)} calls, {len(jobs)} runs with one error; exit codes "
          f"{dict(sorted(codes.items(), key=str))}; {len(wrong)} wrong", flush=True)
    print(f"  other codes: {'; '.join(unusual) or 'none'}")
    for line in wrong:
        print(line, flush=True)
    if not wrong:
        shutil.rmtree(folder)
    return not wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--binary", default=os.path.join(kills.ROOT, "build/release/bvtrain"))
    parser.add_argument("--every", type=int, default=1, help="only every N-th call")
    parser.add_argument("--until", type=int, default=sys.maxsize, help="only the first N calls")
    parser.add_argument("--errors", default="EIO,ENOSPC,EDQUOT,EROFS,EMFILE,EINTR,short")
    parser.add_argument("variants", nargs="*", metavar="VARIANT")
    given = parser.parse_args()
    errors = [name if name == "short" else getattr(errno, name) for name in given.errors.split(",")]
    names = given.variants or VARIANTS
    results = [try_variant(given.binary, name, errors, given.every, given.until) for name in names]
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
