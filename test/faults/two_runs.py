#!/usr/bin/env python3
"""two_runs.py [--rounds N] [--trials beside,...] [PLACE...]: starts several runs on one workdir.

One command is started twice, in these places:

  same host        two processes of this machine
  pid namespace    the second one cannot see the process ids of the first
  host name        the second one has another host name, as on a folder that hosts share
  other machine    the second one has another boot id too, and a file system whose locks hold on each
                   host for itself

Then these must hold:

  1. While the first one trains, the second is refused with code 2 and a line that names the first.
     So it is while the first one is stopped (SIGSTOP), except on another machine: there the second
     takes over, and the first one ends with code 2 when it goes on.
  2. If both start at the same time, one of them trains. The other one is refused. (Not tried where locks
     hold on each host for itself: there one of the two ends within seconds.)
  3. After kill -9 of the first one the second one says that it takes over, and ends like an
     undisturbed run.

Needs root, for the namespaces. Prints a line for each place, and ends with 1 if anything is wrong;
the workdir is then kept.
"""

import argparse
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

BEAT = 0.5  # seconds between two lines of a holder
SLOW = "ckpt.shard_written:1+:0.4"  # a run takes 8 s
TRIALS = ("beside", "stopped", "killed", "at_once")
PLACES = ("same host", "pid namespace", "host name", "other machine")


def places(folder):
    boot = os.path.join(folder, "boot_id")
    with open(boot, "w") as file:
        file.write("00000000-1111-2222-3333-444444444444\n")
    inside = ["unshare", "--uts", "--mount", "sh", "-c"]
    return {
        "same host": ([], {}),
        "pid namespace": (["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"], {}),
        "host name": ([*inside, 'hostname elsewhere && exec "$@"', "sh"], {}),
        "other machine": ([*inside, f"hostname elsewhere && mount --bind {boot} /proc/sys/kernel/random/boot_id "
                           '&& exec "$@"', "sh"], {"BVTRAIN_WITHOUT": "flock"}),
    }


class Trial:
    def __init__(self, binary, folder, place, number):
        prefix, self.environment = places(folder)[place]
        self.other_machine = place == "other machine"
        self.folder = folder
        self.workdir = os.path.join(folder, f"{place.replace(' ', '-')}-{number}")
        self.args = [binary, "--config", os.path.join(folder, "c.yaml"), "--workdir", self.workdir,
                     "--devices", "cpu:1"]
        self.prefix = prefix
        self.rng = random.Random(f"{place}{number}")

    def start(self, elsewhere=False, sleep=None):
        """`sleep`: a value of BVTRAIN_SLEEP_AT."""
        # On another machine no lock holds at all: neither sees that of the other.
        environment = dict(os.environ, BVTRAIN_LOCK_BEAT=str(BEAT), **self.environment)
        if sleep:
            environment["BVTRAIN_SLEEP_AT"] = sleep
        return subprocess.Popen((self.prefix if elsewhere else []) + self.args, stdin=subprocess.DEVNULL,
                                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment)

    def await_row(self, process):
        metrics = os.path.join(self.workdir, "metrics.jsonl")
        while process.poll() is None and not (os.path.exists(metrics) and os.path.getsize(metrics)):
            time.sleep(0.005)

    def refused(self):
        second = self.start(elsewhere=True)
        err = second.communicate(timeout=120)[1].decode(errors="replace")
        if second.returncode != 2 or "the workdir is in use by process " not in err:
            return f"the second run ends with {second.returncode}: {err[-300:]}"
        return ""

    def compared(self, what):
        wrong = difference(os.path.join(self.folder, "whole"), self.workdir)
        return f"{what}: {wrong}" if wrong else ""

    def end(self, process, what):
        """Waits for a run that must end like an undisturbed one."""
        err = process.communicate(timeout=300)[1].decode(errors="replace")
        if process.returncode != 0:
            return f"{what} ends with {process.returncode}: {err[-300:]}"
        return self.compared(what)

    def beside(self):
        for seconds in (2, 8, 32):
            first = self.start(sleep=f"ckpt.shard_written:1:{seconds}")  # training waits for the save
            self.await_row(first)
            wrong = self.refused()
            if not wrong or first.poll() != 0:
                break
            # On a busy machine the first one had finished before the second one came.
            first.communicate()
            shutil.rmtree(self.workdir)
        return wrong or self.end(first, "the first run")

    def stopped(self):
        first = self.start(sleep=SLOW)
        self.await_row(first)
        first.send_signal(signal.SIGSTOP)
        if not self.other_machine:
            wrong = self.refused()
            first.send_signal(signal.SIGCONT)
            return wrong or self.end(first, "the first run")
        second = self.start(elsewhere=True)
        while second.poll() is None and not self.taken_over():
            time.sleep(0.02)
        first.send_signal(signal.SIGCONT)
        err = first.communicate(timeout=120)[1].decode(errors="replace")
        if first.returncode != 2 or "has taken over the workdir" not in err:
            second.kill()
            return f"the first run ends with {first.returncode}: {err[-300:]}"
        return self.end(second, "the second run")

    def taken_over(self):
        with open(os.path.join(self.workdir, ".lock")) as file:
            return " elsewhere " in file.read()

    def at_once(self):
        runs = [self.start(), self.start(elsewhere=True)]
        errs = [run.communicate(timeout=300)[1].decode(errors="replace") for run in runs]
        codes = sorted(run.returncode for run in runs)
        finished = "finished already" in "".join(errs)
        if codes != [0, 2] and not (codes == [0, 0] and finished):
            return f"both at once: codes {codes}: {errs[0][-300:]} {errs[1][-300:]}"
        return self.compared("both at once")

    def killed(self):
        first = self.start(sleep=SLOW)
        self.await_row(first)
        time.sleep(self.rng.uniform(0, 0.5))
        first.kill()
        first.communicate()
        second = self.start(elsewhere=True)
        err = second.communicate(timeout=300)[1].decode(errors="replace")
        if second.returncode != 0 or f"from process {first.pid} on host " not in err:
            return f"after a kill the second run ends with {second.returncode}: {err[-300:]}"
        return self.compared("after a kill")

    def run(self, what):
        wrong = getattr(self, what)()
        if not wrong:
            shutil.rmtree(self.workdir)
        return f"{wrong}; see {self.workdir}" if wrong else ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--binary", default=os.path.join(kills.ROOT, "build/release/bvtrain"))
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--trials", default=",".join(TRIALS), help="only these")
    parser.add_argument("places", nargs="*", metavar="PLACE", help="only these: 'same host', ...")
    given = parser.parse_args()
    if unknown := {*given.trials.split(","), *given.places} - {*TRIALS, *PLACES}:
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    folder = tempfile.mkdtemp(prefix="bvtrain-two-runs-")
    kills.train_undisturbed(given.binary, folder, "whole")
    good = True
    for place in given.places or PLACES:
        wrong, count = [], 0
        for number in range(given.rounds):
            for what in given.trials.split(","):
                if what == "at_once" and place == "other machine":
                    continue
                count += 1
                if fault := Trial(given.binary, folder, place, f"{number}-{what}").run(what):
                    wrong.append(fault)
        good &= kills.told(f"{place}: {count} trials", wrong)
    if good:
        shutil.rmtree(folder)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
