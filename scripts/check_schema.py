#!/usr/bin/env python3
"""check_schema.py SCHEMA CATALOGUE... -- CONFIG...

Checks that the JSON Schema of a config agrees with the program: that it accepts each CONFIG, and that
it refuses each case of the catalogues of wrong configs (test/train/*.txt) whose fault is one of its
kind: an unknown key or name, a wrong type, or a word or number that is not allowed. Prints what
disagrees. Needs the packages jsonschema and PyYAML."""
import json
import re
import sys

import jsonschema
import yaml


class Loader(yaml.SafeLoader):
    """YAML as bvtrain reads it: of the words only true and false are booleans, and 1e3 is a number."""


Loader.yaml_implicit_resolvers = {
    key: [(tag, pattern) for tag, pattern in resolvers
          if tag not in ("tag:yaml.org,2002:bool", "tag:yaml.org,2002:float", "tag:yaml.org,2002:int",
                         "tag:yaml.org,2002:timestamp")]
    for key, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"^(?:true|false)$"), list("tf"))
Loader.add_implicit_resolver("tag:yaml.org,2002:int", re.compile(r"^[-+]?(?:0|[1-9][0-9]*)$"), list("-+0123456789"))
Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?$"), list("-+.0123456789"))

# Messages about errors that a schema can detect. It cannot check pp strings, and in JSON 10.0 is an
# integer.
SEEN = re.compile(r"^x\.yaml\S* error: (unknown key|unknown (model|source|optimizer|decay|loss|task|evaluator|schedule) |"
                  r"\S+: expected (a number|an integer(?!, got '[0-9]+\.0')|true or false|a list|a mapping|a string))")


def load(text):
    return yaml.load(text, Loader)


def cases(path):
    """Yields (name, text, expected lines) of a catalogue."""
    name, text, expected, part = None, [], [], 0
    for line in open(path, encoding="utf-8").read().split("\n") + ["=== "]:
        if line.startswith("=== "):
            if name is not None:
                yield name, "\n".join(text), [e for e in expected if e]
            name, text, expected, part = line[4:], [], [], 0
        elif line == "-----":
            part += 1
        elif part == 1:
            text.append(line)
        elif part == 2:
            expected.append(line)


def main():
    split = sys.argv.index("--")
    schema = json.load(open(sys.argv[1], encoding="utf-8"))
    jsonschema.Draft7Validator.check_schema(schema)
    validator = jsonschema.Draft7Validator(schema)
    wrong = []
    for path in sys.argv[split + 1:]:
        for error in validator.iter_errors(load(open(path, encoding="utf-8"))):
            wrong.append(f"{path}: refused: {'/'.join(map(str, error.path))}: {error.message[:300]}")
    refused = seen = 0
    for path in sys.argv[2:split]:
        base = {}
        for name, text, expected in cases(path):
            try:
                config = load(text)
            except yaml.YAMLError:
                continue
            if name == "base":
                base = config
                continue
            if "${" in text:  # a schema does not know the value of the variable
                continue
            if not isinstance(config, dict) or not expected or not all(SEEN.search(line) for line in expected):
                continue
            seen += 1
            if validator.is_valid({**base, **config}):
                wrong.append(f"{path}: {name}: accepted, but: {expected[0]}")
            else:
                refused += 1
    print(f"accepts {len(sys.argv) - split - 1} configs, refuses {refused} of {seen} wrong ones")
    print("\n".join(wrong))
    sys.exit(bool(wrong))


main()
