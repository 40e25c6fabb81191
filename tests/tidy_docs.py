"""Documents against the tree and the binary: no dead path, no flag that one of them lacks.

SPDX-License-Identifier: Apache-2.0
"""

import re
import subprocess

PATH_LIKE = re.compile(r"^\.?[\w.\-]+(?:/[\w.\-]+)*/?$")
FILE_ENDINGS = (".cc", ".h", ".py", ".md", ".sh", ".cmake", ".json")
# Made by a build, or named as an example of what a user has.
NOT_IN_TREE = re.compile(r"^build(/|$)|\.gguf$")
# The README's table of flags: a row names flags in its first cell, commands in its second.
FLAGS_HEADING = "## Flags"
FLAG = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*|(?<![\w-])-[a-zA-Z](?![\w-])")


def check_paths(tree):
    tops = {name.split("/")[0] for name in tree.files}
    rooms = {name.split("/")[1] for name in tree.files
             if name.startswith("src/") and name.count("/") > 1}
    known = set(tree.files)
    for name in tree.files:
        known.update(name.rsplit("/", n)[0] for n in range(1, name.count("/") + 1))
    for name, text in tree.files.items():
        if not name.endswith(".md") or text is None:
            continue
        prose = re.sub(r"```.*?```", lambda block: "\n" * block[0].count("\n"), text,
                       flags=re.DOTALL)
        for number, line in enumerate(prose.splitlines(), 1):
            for token in re.findall(r"`([^`]+)`", line):
                if not _looks_like_path(token, tops | rooms) or NOT_IN_TREE.search(token):
                    continue
                path = token.rstrip("/")
                tries = [path, f"src/{path}", f"src/{path}.h", f"src/{path}.cc"]
                if not any(candidate in known for candidate in tries):
                    yield f"{name}:{number}: `{token}` is not in the tree"


def _looks_like_path(token, firsts):
    if not PATH_LIKE.match(token):
        return False
    first, slash, _ = token.partition("/")
    return bool(slash and first in firsts) or token.endswith(FILE_ENDINGS)


def help_of(ridge, words):
    try:
        done = subprocess.run([ridge, *words, "--help"], capture_output=True, text=True,
                              check=False, timeout=60, stdin=subprocess.DEVNULL)
    except OSError:
        return ""
    return done.stdout if done.returncode == 0 else ""


def flags_in_help(text):
    """The flags that head an option line: '  -n,--tokens N   text' gives -n and --tokens."""
    flags = set()
    for line in text.splitlines():
        if match := re.match(r"^\s+(-[^\s].*?)(?:\s{2,}|$)", line):
            flags.update(FLAG.findall(match[1].replace(",", " ")))
    return flags


def subcommands_in_help(text):
    """Names under a heading that contains 'subcommands' or 'commands'."""
    names, inside = [], False
    for line in text.splitlines():
        if re.match(r"^\S.*commands", line, re.IGNORECASE):
            inside = True
        elif re.match(r"^\S", line):
            inside = False
        elif inside and (match := re.match(r"^\s{1,4}([a-z]+)\b", line)):
            names.append(match[1])
    return names


def flags_of_binary(ridge):
    """command ('' for the program itself) -> its flags. A nested command counts as its parent."""
    top = help_of(ridge, [])
    flags = {"ridge": flags_in_help(top)}
    for command in subcommands_in_help(top):
        text = help_of(ridge, [command])
        flags[command] = flags_in_help(text)
        for nested in subcommands_in_help(text):
            flags[command] |= flags_in_help(help_of(ridge, [command, nested]))
    return flags


def flags_in_readme(text):
    """command -> the flags that the table under '## Flags' gives it."""
    flags = {}
    section = text.split(FLAGS_HEADING + "\n", 1)
    if len(section) < 2:
        return flags
    for line in section[1].split("\n## ")[0].splitlines():
        cells = [cell.strip() for cell in line.replace(r"\|", "/").split("|")]
        if len(cells) < 4:
            continue
        named = {flag for code in re.findall(r"`([^`]+)`", cells[1]) for flag in FLAG.findall(code)}
        for command in re.findall(r"[a-z]+", cells[2]) if named else []:
            flags.setdefault(command, set()).update(named)
    return flags


def check_flags(tree, ridge):
    if ridge is None:
        print("SKIPPED: flags against documents (no --ridge)")
        return
    in_help = flags_of_binary(ridge)
    if "run" not in in_help:
        print(f"SKIPPED: flags against documents ({ridge} has no command run)")
        return
    in_readme = flags_in_readme(tree.files.get("README.md") or "")
    for command in sorted(set(in_help) | set(in_readme)):
        # Every command has --help.
        helped = in_help.get(command, set()) - {"-h", "--help"}
        named = in_readme.get(command, set()) - {"-h", "--help"}
        for flag in sorted(helped - named):
            yield f"README.md: the table of flags lacks {flag} of {command}"
        for flag in sorted(named - helped):
            yield f"README.md: the table of flags gives {command} a {flag} that its --help lacks"
