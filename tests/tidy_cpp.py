"""Just enough C++ for tidy.py: code without comments and literals, and where functions are.

SPDX-License-Identifier: Apache-2.0
"""

import re
from typing import NamedTuple

TOKEN = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(?P<tag>[^()\\\s]*)\(.*?\)(?P=tag)"|"(?:\\.|[^"\\\n])*"'
    r"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'", re.DOTALL)


class Function(NamedTuple):
    name: str
    line: int   # of the first line of its head
    lines: int  # head and body


def code_only(text):
    """The text with comments blanked and literals emptied; every line keeps its number."""

    def blank(match):
        token = match[0]
        newlines = "\n" * token.count("\n")
        return newlines + " " if token.startswith("/") else '""' + newlines

    return TOKEN.sub(blank, text)


def without_preprocessor(code):
    """Directives blanked. Of an #if, only the first branch stays: else its braces count twice."""
    out, skipping, depth_stack, continued = [], 0, [], False
    for line in code.split("\n"):
        directive = re.match(r"\s*#\s*(\w+)", line)
        if continued or directive:
            if directive and not continued:
                skipping = _conditional(directive[1], depth_stack)
            continued = line.endswith("\\")
            out.append("")
        else:
            out.append("" if skipping else line)
    return "\n".join(out)


def _conditional(word, stack):
    """Updates the stack of 'are we past the first branch', returns whether anything is skipped."""
    if word in ("if", "ifdef", "ifndef"):
        stack.append(False)
    elif word in ("else", "elif") and stack:
        stack[-1] = True
    elif word == "endif" and stack:
        stack.pop()
    return any(stack)


def kind_of(head):
    """What the brace after `head` opens: 'namespace', 'type', 'function' or 'value'."""
    head = head.strip()
    if re.search(r"\bnamespace\b[\w:\s]*$", head) or re.search(r'\bextern\s*""$', head):
        return "namespace"
    if head.count("(") > head.count(")"):
        return "value"  # a default argument
    plain = re.sub(r"alignas\s*\([^()]*\)|\[\[.*?\]\]", "", head)
    while re.match(r"\s*template\s*<", plain):
        plain = _after_template(plain)
    if re.match(r"\s*(?:typedef\s+)?(?:class|struct|union|enum)\b[^()=]*$", plain):
        return "type"
    if ")" not in plain and not plain.endswith("]"):
        return "value"
    if re.search(r"(?:=|,|\(|\breturn)$", plain):
        return "value"
    if re.search(r"\)[\w\s()]*:(?!:)", plain) and re.search(r"[\w>]$", plain):
        return "value"  # one member of a constructor's list
    return "function"


def _after_template(text):
    depth = 0
    for index in range(text.index("<"), len(text)):
        depth += {"<": 1, ">": -1}.get(text[index], 0)
        if depth == 0:
            return text[index + 1:]
    return ""


def functions_of(text):
    """Functions at namespace or class level; what is nested in a body counts as part of it."""
    code = without_preprocessor(code_only(text))
    found, stack, head, head_line, line = [], [], "", None, 1
    inside = 0  # depth of braces within the function or value being skipped
    for char in code:
        if char == "\n":
            line += 1
        if inside:
            inside += {"{": 1, "}": -1}.get(char, 0)
            if inside == 0:
                kind, name, first = stack.pop()
                if kind == "function":
                    found.append(Function(name, first, line - first + 1))
                    head, head_line = "", None
                else:
                    head += "{}"
            continue
        if char == "{":
            kind = kind_of(head)
            stack.append((kind, _name_of(head), head_line or line))
            if kind in ("function", "value"):
                inside = 1
            else:
                head, head_line = "", None
        elif char == "}":
            if stack:
                stack.pop()
            head, head_line = "", None
        elif char == ";" and head.count("(") <= head.count(")"):
            head, head_line = "", None
        else:
            if not char.isspace() and head_line is None:
                head_line = line
            head += char
    return found


def _name_of(head):
    if match := re.search(r"\b(TEST(?:_[FP])?)\s*\(([^)]*)\)", head):
        return re.sub(r"\s*,\s*", ".", match[2].strip())
    match = re.search(r"([\w:~]+|operator\s*\S+?)\s*\(", head)
    return match[1] if match else "(unnamed)"
