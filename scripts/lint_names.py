#!/usr/bin/env python3
"""Checks that every struct, class, union and enum has one definition in the program.

    lint_names.py FILES...

Two classes with the same name in one namespace are undefined behaviour that no compiler reports. In
anonymous namespaces they still mislead readers. The name of a nested type includes the name of the
type around it: Group::Impl and Store::Impl are different names.
"""
import re
import sys

TOKEN = re.compile(
    r"(?P<text>R\"(?P<mark>[^(\s]*)\(.*?\)(?P=mark)\"|\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])+')"
    r"|(?P<comment>//[^\n]*|/\*.*?\*/|^[ \t]*#(?:[^\n]*\\\n)*[^\n]*)"
    r"|(?P<type>\b(?:struct|class|union|enum(?:\s+class|\s+struct)?)\s+(?:\[\[[^\]]*\]\]\s*|alignas\([^)]*\)\s*)*"
    r"(?P<name>[A-Za-z_][\w:]*)(?P<arguments>\s*<[^;{}]*?>)?(?:\s+final)?\s*(?::[^:;{}()][^;{}()]*)?\{)"
    r"|(?P<open>\{)|(?P<close>\})", re.S | re.M)


def definitions(content):
    """Yields (qualified name, offset) of every type that `content` defines; leaves out specialisations."""
    around = []  # for each open brace: the name of its type, or None
    for token in TOKEN.finditer(content):
        if token["type"]:
            around.append(token["name"])
            if not token["arguments"]:
                yield "::".join(name for name in around if name), token.start()
        elif token["open"]:
            around.append(None)
        elif token["close"] and around:
            around.pop()


def main(files):
    first, failed = {}, False
    for file in files:
        with open(file, encoding="utf-8") as stream:
            content = stream.read()
        for name, offset in definitions(content):
            place = f"{file}:{content.count(chr(10), 0, offset) + 1}"
            if name in first:
                print(f"{place}: error: the type '{name}' is also defined at {first[name]}")
                failed = True
            first.setdefault(name, place)
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
