#!/usr/bin/env python3
"""crash_states.py [--every N] [VARIANT...]: what a machine that loses power may leave of a run.

A run is trained once, and all that it does to the files of its workdir is recorded. A crash may come
after each of these calls. What was synced is then on disk; of all other calls any part may be there:
none, all, all but one, one alone, and a write in part or as zeros. For each state of the workdir that
results, these must hold:

  1. The same command trains to the end, with the rows and checkpoints of the undisturbed run.
  2. It continues from a checkpoint that is at least as new as the last one that was committed.

Only calls on checkpoints, metrics and the small files of a workdir count; logs, TensorBoard files and
reports are left out. Prints a line for each variant, and ends with 1 if a state cannot be recovered;
that state is then kept.
"""

import argparse
import collections
import hashlib
import json
import multiprocessing
import os
import re
import shutil
import subprocess
import sys
import tempfile

import random_kills as kills
from io_errors import CONFIG, difference

HERE = os.path.dirname(os.path.abspath(__file__))
VARIANTS = ("plain", "one_kept", "two_ranks", "four_ranks", "zero1")
LEFT_OUT = re.compile(r"/(tb|log)(/|$)|\.(html|svg)|/\.lock")
ROOT = 0  # the inode of the workdir
STEPS = 8  # of a run; that of io_errors.py saves after 3, 6 and 8

Call = collections.namedtuple("Call", "kind inode name folder other_name other_folder offset data target")


def read_record(file, workdir):
    """The calls of a record. Each names the inodes that it changes, whatever their paths became."""
    with open(file, "rb") as f:
        record = f.read()
    folders, files = {workdir: ROOT}, {}  # path -> inode
    calls, at, inodes = [], 0, 0

    def find(path):
        return folders.get(path, files.get(path))

    def move(start, to):
        for known in (folders, files):
            for path in [p for p in known if p == start or p.startswith(start + "/")]:
                known[to + path[len(start):]] = known.pop(path)

    def forget(path):
        for known in (folders, files):
            for each in [p for p in known if p == path or p.startswith(path + "/")]:
                del known[each]

    while at < len(record):
        end = record.index(b"\n", at)
        kind, path, other, offset, size = record[at:end].decode().split("\t")
        data = record[end + 1:end + 1 + int(size)]
        at = end + 1 + int(size)
        if LEFT_OUT.search(path[len(workdir):]) or kind == "open" or path == workdir and kind == "mkdir":
            continue
        folder, name = folders.get(os.path.dirname(path)), os.path.basename(path)
        inode = find(path)
        call = dict(kind=kind, inode=inode, name=name, folder=folder, other_name="", other_folder=None,
                    offset=int(offset), data=data, target=None)
        if kind in ("create", "mkdir"):
            if inode is not None:
                continue
            inodes += 1
            call["inode"] = inodes
            (folders if kind == "mkdir" else files)[path] = inodes
        elif inode is None:
            raise RuntimeError(f"{kind} of an unknown file: {path}")
        elif kind == "remove":
            forget(path)
        elif kind in ("rename", "exchange", "link"):
            call.update(other_name=os.path.basename(other), other_folder=folders[os.path.dirname(other)],
                        target=find(other))
            if kind == "link":
                files[other] = inode
            elif kind == "rename":
                if not (path in files and files.get(other) == inode):
                    forget(other)
                move(path, other)
            else:
                move(path, path + "\0")
                move(other, path)
                move(path + "\0", other)
        calls.append(Call(**call))
    return calls


def synced_by(calls):
    """For each call the number of the first call after which it is on disk."""
    out = []
    for i, call in enumerate(calls):
        if call.kind in ("write", "truncate"):
            wanted = {call.inode}
        elif call.kind == "link":
            wanted = {call.other_folder}
        else:
            wanted = {call.folder, call.other_folder} - {None}
        needed = len(calls)
        for j in range(i + 1, len(calls)):
            if calls[j].kind == "fsync" and calls[j].inode in wanted:
                wanted.discard(calls[j].inode)
                if not wanted:
                    needed = j
                    break
        out.append(needed)
    return out


def build(calls, applied, spoilt=None, how=None):
    """The files and folders after some calls: {path: content or None}. `spoilt`: a write that is there
    only in part (how: "torn") or as zeros."""
    entries, contents, is_folder = {}, {}, {ROOT}
    for i in applied:
        c = calls[i]
        if c.kind in ("create", "mkdir"):
            entries[c.folder, c.name] = c.inode
            if c.kind == "mkdir":
                is_folder.add(c.inode)
        elif c.kind == "write":
            content = contents.setdefault(c.inode, bytearray())
            data = c.data
            if i == spoilt:
                data = data[:len(data) // 2] if how == "torn" else bytes(len(data))
            content.extend(bytes(max(0, c.offset + len(data) - len(content))))
            content[c.offset:c.offset + len(data)] = data
        elif c.kind == "truncate":
            content = contents.setdefault(c.inode, bytearray())
            del content[c.offset:]
            content.extend(bytes(c.offset - len(content)))
        elif c.kind == "remove":
            entries.pop((c.folder, c.name), None)
        elif c.kind == "link":
            entries[c.other_folder, c.other_name] = c.inode
        elif c.kind == "rename":
            entries.pop((c.folder, c.name), None)
            entries[c.other_folder, c.other_name] = c.inode
        elif c.kind == "exchange":
            entries[c.folder, c.name], entries[c.other_folder, c.other_name] = c.target, c.inode
    tree = {}

    def walk(inode, path):
        for (folder, name), child in sorted(entries.items()):
            if folder != inode:
                continue
            if child in is_folder:
                tree[path + name] = None
                walk(child, path + name + "/")
            else:
                tree[path + name] = bytes(contents.get(child, b""))

    walk(ROOT, "")
    return tree


def committed(calls, on_disk):
    """The newest step whose folder is on disk under its name, of calls that are synced."""
    steps = [-1]
    for i in on_disk:
        if calls[i].kind in ("rename", "exchange") and re.fullmatch(r"step-\d+", calls[i].other_name):
            steps.append(int(calls[i].other_name[5:]))
    return max(steps)


def all_states(calls, every):
    """Yields (text, tree, least step) of each state, once."""
    synced = synced_by(calls)
    seen = set()
    for crash in range(0, len(calls) + 1, every):
        before = [i for i in range(crash) if calls[i].kind != "fsync"]
        on_disk = [i for i in before if synced[i] < crash]
        open_calls = [i for i in before if synced[i] >= crash]
        least = committed(calls, on_disk)
        choices = [("nothing more", on_disk, None, None), ("everything", before, None, None)]
        for i in open_calls:
            name = f"{calls[i].kind} {calls[i].other_name or calls[i].name}"
            choices.append((f"all but {name}", [j for j in before if j != i], None, None))
            choices.append((f"only {name}", sorted([*on_disk, i]), None, None))
            if calls[i].kind == "write":
                choices.append((f"{name} torn", before, i, "torn"))
                choices.append((f"{name} as zeros", before, i, "zeros"))
        for text, applied, spoilt, how in choices:
            tree = build(calls, applied, spoilt, how)
            digest = hashlib.sha256(repr(sorted(tree.items(), key=lambda e: e[0])).encode()).digest()
            if (digest, least) not in seen:
                seen.add((digest, least))
                yield f"after call {crash}: {text}", tree, least


def command(binary, folder, workdir, variant):
    return kills.command(binary, folder, workdir, variant) + ["--set", f"total_steps={STEPS}"]


def recover(job):
    """Trains to the end from a state. Returns what is wrong with that."""
    binary, folder, variant, number, text, tree, least = job
    workdir = os.path.join(folder, f"state-{number}")
    os.makedirs(workdir)
    for name, content in tree.items():
        path = os.path.join(workdir, name)
        if content is None:
            os.makedirs(path, exist_ok=True)
        else:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as f:
                f.write(content)
    args = command(binary, folder, workdir, variant)
    try:
        done = subprocess.run(args, stdin=subprocess.DEVNULL, capture_output=True, timeout=120)
    except subprocess.TimeoutExpired:
        return f"{text}: hangs; see {workdir}"
    if done.returncode != 0:
        return f"{text}: ends with {done.returncode}: {done.stderr.decode(errors='replace')[-300:]}; see {workdir}"
    if wrong := difference(os.path.join(folder, "whole"), workdir):
        return f"{text}: {wrong}; see {workdir}"
    with open(os.path.join(workdir, "result.json")) as f:
        first = json.load(f)["first_step"]
    if "DONE" not in tree and first < least:
        return f"{text}: continues from step {first}, but step {least} was committed; see {workdir}"
    shutil.rmtree(workdir)
    return ""


def try_variant(binary, variant, every):
    folder = tempfile.mkdtemp(prefix=f"bvtrain-crash-{variant}-", dir="/dev/shm")
    with open(os.path.join(folder, "c.yaml"), "w") as f:
        f.write(CONFIG)
    library = os.path.join(folder, "io_record.so")
    subprocess.run(["gcc", "-O1", "-shared", "-fPIC", "-o", library, os.path.join(HERE, "io_record.c"),
                    "-ldl"], check=True)
    whole, record = os.path.join(folder, "whole"), os.path.join(folder, "record")
    os.makedirs(whole)
    environment = dict(os.environ, LD_PRELOAD=library, IO_RECORD_DIR=whole, IO_RECORD_LOG=record)
    subprocess.run(command(binary, folder, whole, variant), env=environment, check=True,
                   stdin=subprocess.DEVNULL, capture_output=True)
    calls = read_record(record, whole)
    if (tree := build(calls, range(len(calls)))) != (real := read_tree(whole)):
        names = sorted(n for n in {*tree, *real} if tree.get(n, 0) != real.get(n, 0))
        sys.exit(f"{variant}: the record does not give the workdir: {names}")
    states = all_states(calls, every)
    jobs = ((binary, folder, variant, n, *state) for n, state in enumerate(states))
    count, wrong = 0, []
    with multiprocessing.Pool(os.cpu_count()) as pool:
        for fault in pool.imap_unordered(recover, jobs):
            count += 1
            if fault:
                wrong.append(fault)
                print("  " + fault, flush=True)
    print(f"{variant}: {len(calls)} calls, {count} states; {len(wrong)} wrong", flush=True)
    if not wrong:
        shutil.rmtree(folder)
    return not wrong


def read_tree(workdir):
    """The files and folders of a workdir, as build() gives them."""
    tree = {}
    for folder, folders, files in os.walk(workdir):
        for name in [*folders, *files]:
            path = os.path.join(folder, name)
            if LEFT_OUT.search(path[len(workdir):]):
                continue
            if name in folders:
                tree[path[len(workdir) + 1:]] = None
            else:
                with open(path, "rb") as f:
                    tree[path[len(workdir) + 1:]] = f.read()
    return tree


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--binary", default=os.path.join(kills.ROOT, "build/release/bvtrain"))
    parser.add_argument("--every", type=int, default=1, help="a crash after every N-th call only")
    parser.add_argument("variants", nargs="*", metavar="VARIANT", help=" ".join(VARIANTS))
    given = parser.parse_args()
    results = [try_variant(given.binary, name, given.every) for name in given.variants or VARIANTS]
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
