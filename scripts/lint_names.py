#!/usr/bin/env python3
"""Checks that every struct, class, union and enum, and every inline function, has one definition.

    lint_names.py [--local] FILES...

Two classes with the same name in one namespace are undefined behaviour that no compiler reports. In
anonymous namespaces they still mislead readers. The name of a nested type includes the name of the
type around it: Group::Impl and Store::Impl are different names.

The same holds for inline functions with the same name and parameters in two headers. Only functions
that begin in the first column are checked, not members.

Also checks that a name in an anonymous namespace, or of a static function, belongs to one source of
its module (a folder of lib/ or test/, models/ or app/). The build compiles several sources of a module
as one (BV_UNITY in cmake/Modules.cmake), where a call could otherwise reach another source's function.
With --local only these names are checked.
"""
import pathlib
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


BLANK = re.compile(
    r"R\"(?P<mark>[^(\s]*)\(.*?\)(?P=mark)\"|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])+'"
    r"|//[^\n]*|/\*.*?\*/|^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.S | re.M)
NAMESPACE = re.compile(r"(?:^|\s)namespace(?:\s+([\w:]+))?\s*$")
TYPE = re.compile(r"(?:struct|class|union|enum(?:\s+class|\s+struct)?)\s+(?:alignas\([^)]*\)\s*)?(\w+)\s*(?:final)?\s*[:{;]")
NO_NAMES = {"if", "alignas", "decltype", "noexcept", "sizeof", "requires", "__attribute__"}


def blank(content):
    """Returns `content` without comments, preprocessor lines and the text of strings, line by line."""
    return BLANK.sub(lambda match: ('""' if match[0][0] in "R\"" else "0" if match[0][0] == "'" else "")
                     + "\n" * match[0].count("\n"), content)


def declarations(content):
    """Yields (namespaces, text, offset) of each declaration at namespace level; "" is an anonymous one."""
    namespaces, braces, parentheses, start = [], 0, 0, 0
    for i, char in enumerate(content):
        if char in "()":
            parentheses += 1 if char == "(" else -1
        elif char == "{":
            found = NAMESPACE.search(content, start, i) if braces == 0 and parentheses == 0 else None
            if found:
                namespaces.append(found[1] or "")
                start = i + 1
            else:
                braces += 1
        elif char == "}" and braces == 0:
            if namespaces:
                namespaces.pop()
            start = i + 1
        elif char == "}":
            braces -= 1
            # A function ends with its body, a type or an initialiser with the semicolon after it.
            if braces == 0 and parentheses == 0 and not re.match(r"\s*[;,]", content[i + 1:i + 80]):
                yield namespaces, content[start:i + 1], start
                start = i + 1
        elif char == ";" and braces == 0 and parentheses == 0:
            yield namespaces, content[start:i + 1], start
            start = i + 1


def without_template_arguments(text):
    kept, depth = "", 0
    for i, char in enumerate(text):
        if char == "<" and re.search(r"[\w>]\s*$", text[:i]):
            depth += 1
        elif char == ">" and depth > 0 and text[i - 1] != "-":
            depth -= 1
        elif depth == 0:
            kept += char
    return kept


def declared_names(text):
    """Returns the names that one declaration at namespace level introduces."""
    text = re.sub(r"\[\[[^\]]*\]\]", "", text.strip())
    head = without_template_arguments(text[:text.find("{") + 1] or text)
    head = re.sub(r"^template\s*", "", head.strip())
    if alias := re.match(r"using\s+(\w+)\s*=", head):
        return [alias[1]]
    if re.match(r"using\b|namespace\b|static_assert\b|[A-Z_0-9]+\s*\(", head) or re.search(r"\boperator\b", head):
        return []
    if kind := TYPE.match(head):
        return [kind[1]]
    for match in re.finditer(r"\b([A-Za-z_]\w*)\s*(?=[({=\[;])", head):
        if match[1] in NO_NAMES:
            continue
        if head[:match.start()].endswith("::"):  # the definition of a member
            return []
        more = [] if head[match.end()] == "(" else re.findall(r",\s*\*?(\w+)\s*(?=[={\[;])", head[match.end():])
        return [match[1], *more]
    return []


def local_names(content):
    """Yields (name with its namespaces, offset) of everything that only this source can name."""
    content = blank(content)
    for namespaces, text, offset in declarations(content):
        if "" in namespaces or re.match(r"\s*static\b", text):
            offset += len(text) - len(text.lstrip())
            for name in declared_names(text):
                yield "::".join([*filter(None, namespaces), name]), content.count("\n", 0, offset) + 1


def check_local_names(files):
    """Prints an error for each local name that two sources of a module define. Returns whether there were any."""
    first, failed = {}, False
    for file in files:
        parts = pathlib.PurePath(file).parts
        module = parts[:2] if len(parts) > 2 else parts[:1]
        with open(file, encoding="utf-8") as stream:
            names = dict(local_names(stream.read()))
        for name, line in names.items():
            other = first.setdefault((module, name), f"{file}:{line}")
            if not other.startswith(file + ":"):
                print(f"{file}:{line}: error: '{name}' is also a local name of {other}: sources of a module are compiled together")
                failed = True
    return failed


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
    return check_local_names(file for file in files if file.endswith(".cc")) or failed


if __name__ == "__main__":
    arguments = sys.argv[1:]
    sys.exit(check_local_names(arguments[1:]) if arguments[0] == "--local" else main(arguments))
