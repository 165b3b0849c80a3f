#!/usr/bin/env python3
"""lint_keys.py FILE...: reports each key of a config that is read somewhere and has no row in a table
of keys (lib/config/key_table.h). A row counts if it is in the same file, in a header, in a table of the
top level or of `input`, whose keys several files read, or, of lib/model, in a file of models/."""
import re
import sys

# config.get<int64_t>("width", 768), args.word("method", ...)
READER = re.compile(
    r"\.\s*(?:get|maybe|word|section|sections|pattern_sections|superseded)\s*(?:<[^;()\"]*?>+)?\(\s*\"([^\"]+)\"")
# read_size(args, "size"): functions that read a key for their caller
HELPER = re.compile(
    r"\b(?:positive|read_(?!resize_options)\w+|maybe_\w+|duration_\w+)\(\s*(?:config|input|args|data|keys|section)\w*,\s*\"(\w+)\"")
ROW = re.compile(r"\{\s*\"([\w{},*]+)\",\s*(?:\"|k[A-Z]\w+,)")
TOP = re.compile(r"\bKeyTable \w+\(\s*\"(input)?\",")
# These contain no config: the same readers read records of a workdir.
OTHER = re.compile(r"^lib/(config|ckpt|compare|report|help)/|^lib/export/|^test/")


def expand(name):
    match = re.match(r"(.*)\{(.*)\}(.*)$", name)
    if not match:
        return [name]
    return [match[1] + part + match[3] for part in match[2].split(",")] + [match[1].rstrip("_")]


def without_comments(text):
    # Keeps the number of lines. A "//" in a string does not follow a blank.
    return re.sub(r"(^|\s)//[^\n]*", r"\1", text)


def main():
    texts = {name: without_comments(open(name, encoding="utf-8").read()) for name in sys.argv[1:]}
    rows = {name: {key for row in ROW.findall(text) for key in expand(row)} for name, text in texts.items()}
    shared = set().union(*(keys for name, keys in rows.items()
                           if name.endswith(".h") or TOP.search(texts[name])))
    of_models = set().union(*(keys for name, keys in rows.items() if name.startswith("models/")))
    failed = False
    for name, text in texts.items():
        if OTHER.search(name):
            continue
        for match in list(READER.finditer(text)) + list(HELPER.finditer(text)):
            if match[1] in rows[name] or match[1] in shared or (
                    name.startswith("lib/model/") and match[1] in of_models):
                continue
            line = text.count("\n", 0, match.start()) + 1
            print(f"{name}:{line}: error: the key '{match[1]}' has no row in a table of keys")
            failed = True
    sys.exit(failed)


main()
