#!/usr/bin/env python3
"""full_disk.py [--every N] [--spells N]: trains on a small file system that gets full.

The file system is a tmpfs, so the kernel itself refuses the writes. There are four kinds of trials:

  room       it has too little room from the start: each size from one page up to what a run needs
  files      it has room, but too few inodes, each number from one up
  filled     another program fills it while a run trains, and leaves some pages or none
  a spell    the same, but up to 0.9 seconds after the first failed write there is room again

Then these must hold:

  1. The run ends with 5 and names a file, or with 0 like an undisturbed run. After a spell it ends
     with 0.
  2. Once there is room, the same command ends with 0, like an undisturbed run.

Needs root, for the mounts. Prints a line for each kind, and ends with 1 if anything is wrong; the
log of the run is then kept.
"""

import argparse
import collections
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time

import random_kills as kills
from io_errors import difference

PAGE = 4096
LARGE = 256 << 20  # bytes
SHORT = ["total_steps=8", "ckpt_steps=3", "keep_ckpt_steps=4"]
LONG = ["total_steps=6000", "ckpt_steps=50", "keep_ckpt_steps=1000", "evals.test.log_steps=200",
        "log_training_steps=20"]


class Disk:
    """A tmpfs of a given size, mounted at `folder`."""

    def __init__(self, folder, options):
        self.folder, self.filler = folder, os.path.join(folder, "filler")
        os.makedirs(folder, exist_ok=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", options, "bvtrain-test", folder], check=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        subprocess.run(["umount", "-l", self.folder], check=True)

    def enlarge(self):
        self.free()
        subprocess.run(["mount", "-o", f"remount,size={LARGE},nr_inodes=10000", self.folder], check=True)

    def fill(self, pages_left):
        """Takes all room but some pages, while another program may take or free room."""
        with open(self.filler, "wb") as file:
            while True:
                status = os.statvfs(self.folder)
                pages = status.f_bavail * status.f_frsize // PAGE - pages_left
                if pages <= 0:
                    return
                try:
                    os.posix_fallocate(file.fileno(), os.fstat(file.fileno()).st_size, pages * PAGE)
                except OSError:
                    pass

    def free(self):
        if os.path.exists(self.filler):
            os.remove(self.filler)


class Trials:
    def __init__(self, binary):
        self.binary = binary
        self.folder = tempfile.mkdtemp(prefix="bvtrain-disk-")
        self.config = os.path.join(self.folder, "c.yaml")
        with open(self.config, "w") as file:
            file.write(kills.CONFIG)
        self.disk = os.path.join(self.folder, "disk")
        self.workdir = os.path.join(self.disk, "w")
        self.log = os.path.join(self.folder, "log")
        self.codes, self.wrong, self.met = collections.Counter(), [], 0
        for name, values in (("short", SHORT), ("long", LONG)):
            run = self.start(values, self.whole(values))
            if run.wait(300) != 0:
                sys.exit(f"the undisturbed run fails: {self.printed()[-300:]}")

    def whole(self, values):
        return os.path.join(self.folder, "short" if values is SHORT else "long")

    def start(self, values, workdir=None, environment=None):
        args = [self.binary, "--config", self.config, "--workdir", workdir or self.workdir, "--devices", "cpu:1"]
        for value in values:
            args += ["--set", value]
        with open(self.log, "wb") as out:
            return subprocess.Popen(args, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                                    env=dict(os.environ, **(environment or {})))

    def printed(self):
        with open(self.log, errors="replace") as file:
            return file.read()

    def end(self, run):
        try:
            return run.wait(120)
        except subprocess.TimeoutExpired:
            run.kill()
            run.wait()
            return "hangs"

    def judge(self, code, values, must_succeed=False):
        if code == 0:
            return (wrong := difference(self.whole(values), self.workdir)) and f"ended with 0, but {wrong}"
        if code != 5 or must_succeed:
            return f"ended with {code}: {self.printed()[-300:]}"
        if self.disk not in self.printed().strip().splitlines()[-1]:
            return f"does not name a file: {self.printed()[-300:]}"
        return ""

    def trial(self, what, disk, run, values, must_succeed=False):
        code = self.end(run)
        self.codes[code] += 1
        wrong = self.judge(code, values, must_succeed)
        if not wrong and code != 0:
            disk.enlarge()
            again = self.end(self.start(values))
            wrong = (f"ended with {code}, and then with {again}: {self.printed()[-300:]}" if again != 0 else
                     difference(self.whole(values), self.workdir))
        if wrong:
            shutil.copy(self.log, f"{self.log}-{what.replace(' ', '-')}")
            self.wrong.append(f"{what}: {wrong}")
        return code

    def small(self, option, numbers, unit):
        """Trains on ever larger disks, until the run ends with 0."""
        for number in numbers:
            with Disk(self.disk, option.format(number)) as disk:
                run = self.start(SHORT, environment={"BVTRAIN_RETRY_AFTER": "0.01"})
                if self.trial(f"{number} {unit}", disk, run, SHORT) == 0:
                    return

    def await_step(self, run, step):
        metrics = os.path.join(self.workdir, "metrics.jsonl")
        while run.poll() is None:
            try:
                found = kills.rows(self.workdir) if os.path.exists(metrics) else []
            except ValueError:  # an incomplete row
                found = []
            if found and int(found[-1]["step"]) >= step:
                return
            time.sleep(0.005)

    def await_failure(self, run):
        while run.poll() is None and "; trying again in " not in self.printed():
            time.sleep(0.005)
        return "; trying again in " in self.printed()

    def filled(self, count, spell):
        rng = random.Random(1)
        number = late = 0
        while number < count:
            with Disk(self.disk, f"size={LARGE}") as disk:
                run = self.start(LONG, environment={} if spell else {"BVTRAIN_RETRY_AFTER": "0.05"})
                self.await_step(run, rng.randint(1, 2500))
                left = rng.choice([0, 0, 1, 2, 3, 5, 8, 16])
                disk.fill(left)
                met = self.await_failure(run)
                if not met and run.poll() == 0 and late < 3:  # it had finished before, on a busy machine
                    late += 1
                    continue
                self.met += met
                if spell:
                    time.sleep(rng.uniform(0, 0.9))
                    disk.free()
                self.trial(f"{left} pages, number {number}", disk, run, LONG, must_succeed=spell)
                number += 1

    def told(self, kind):
        codes, wrong = dict(sorted(self.codes.items(), key=str)), self.wrong
        if kind in ("filled", "a spell") and self.met < sum(self.codes.values()):
            wrong.append(f"in only {self.met} runs a write failed")
        good = kills.told(f"{kind}: {sum(self.codes.values())} runs; exit codes {codes}", wrong)
        self.codes, self.wrong, self.met = collections.Counter(), [], 0
        return good


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--binary", default=os.path.join(kills.ROOT, "build/release/bvtrain"))
    parser.add_argument("--every", type=int, default=1, help="only every N-th size and number of files")
    parser.add_argument("--spells", type=int, default=100, help="runs on a disk that another program fills, "
                        "and as many with a spell")
    given = parser.parse_args()
    if "BVTRAIN_OWN_MOUNTS" not in os.environ:  # mounts in a separate namespace
        os.environ["BVTRAIN_OWN_MOUNTS"] = "1"
        os.execvp("unshare", ["unshare", "--mount", sys.executable, *sys.argv])
    trials = Trials(given.binary)
    most = 1 << 14
    results = []
    trials.small("size={}", range(PAGE, most * PAGE, given.every * PAGE), "bytes")
    results.append(trials.told("room"))
    trials.small(f"size={LARGE},nr_inodes={{}}", range(2, most, given.every), "files")
    results.append(trials.told("files"))
    for kind, spell in (("filled", False), ("a spell", True)):
        trials.filled(given.spells, spell)
        results.append(trials.told(kind))
    if all(results):
        shutil.rmtree(trials.folder)
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
