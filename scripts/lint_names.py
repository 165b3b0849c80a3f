#!/usr/bin/env python3
"""Checks that every struct, class, union and enum, and every inline function, has one definition.

    lint_names.py FILES...

Two classes with the same name in one namespace are undefined behaviour that no compiler reports. In
anonymous namespaces they still mislead readers. The name of a nested type includes the name of the
type around it: Group::Impl and Store::Impl are different names.

The same holds for inline functions with the same name and parameters in two headers. Only functions
that begin in the first column are checked, not members.
"""
import re
import sys

TOKEN = re.compile(
    r"(?P<text>R\"(?P<mark>[^(\s]*)\(.*?\)(?P=mark)\"|\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])+')"
    r"|(?P<comment>//[^\n]*|/\*.*?\*/|^[ \t]*#(?:[^\n]*\\\n)*[^\n]*)"
    r"|(?P<type>\b(?:struct|class|union|enum(?:\s+class|\s+struct)?)\s+(?:\[\[[^\]]*\]\]\s*|alignas\([^)]*\)\s*)*"
    r"(?P<name>[A-Za-z_][\w:]*)(?P<arguments>\s*<[^;{}]*?>)?(?:\s+final)?\s*(?::[^:;{}()][^;{}()]*)?\{)"
    r"|(?P<open>\{)|(?P<close>\})", re.S | re.M)

INLINE = re.compile(r"^(?:inline|constexpr)\s[^\n=;(]*?\b(?P<name>\w+)(?P<parameters>\([^)]*\))", re.M)


def inline_functions(content):
    """Yields ("name(parameters)", offset) of every inline function at the start of a line."""
    for match in INLINE.finditer(content):
        yield match["name"] + " ".join(match["parameters"].split()), match.start()


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
        functions = inline_functions(content) if file.endswith(".h") else ()
        for name, offset in [*definitions(content), *functions]:
            place = f"{file}:{content.count(chr(10), 0, offset) + 1}"
            if name in first:
                print(f"{place}: error: '{name}' is also defined at {first[name]}")
                failed = True
            first.setdefault(name, place)
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
