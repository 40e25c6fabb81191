#!/usr/bin/env python3
"""The tree's own rules, as a test: layers, sizes, who may print, dead paths and flags in documents.

Usage: tidy.py [--root TREE] [--ridge BINARY]. Prints one line a finding, exit 1 if there is any.
Exemptions stand in the lists below and may only go away: one that exempts nothing is a finding.

SPDX-License-Identifier: Apache-2.0
"""

import argparse
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import tidy_cpp  # noqa: E402
import tidy_docs  # noqa: E402

MAX_COLUMNS = 100
MAX_FUNCTION_LINES = 60
MAX_FILE_LINES = 500
# Kernels and tables.
MAX_LONG_FILE_LINES = 800
LONG_FILES = re.compile(r"^src/kernels/|_table\.(cc|h)$|_tables\.(cc|h)$")

# Exemptions: "path" or "path:function". They may only shrink.
LONG_FUNCTIONS_ALLOWED = []
LONG_FILES_ALLOWED = []

# Headers that only some places may include. Tests may include what they test with.
HEADER_HOMES = [
    (re.compile(r"^(imm|x86|[a-z]mm|avx\w*|wmm)intrin\.h$"), re.compile(r"^src/kernels/cpu/"),
     "raw SIMD belongs in src/kernels/cpu"),
    (re.compile(r"^hwy/"), re.compile(r"^src/(kernels/cpu/|engine/machine)"),
     "Highway belongs in src/kernels/cpu (and in the machine probe)"),
    (re.compile(r"^cpuid\.h$"), re.compile(r"^src/base/cpu_info\.cc$"),
     "CPUID is asked in src/base/cpu_info.cc"),
    (re.compile(r"^hwloc\.h$"), re.compile(r"^src/engine/\w+\.cc$"), "hwloc belongs in src/engine"),
    (re.compile(r"^nlohmann/"), re.compile(r"^src/(cli|engine)/\w+\.cc$|.*_test\.cc$"),
     "nlohmann-json is a heavy header: only in a .cc of cli or engine, and in tests"),
    (re.compile(r"^CLI/"), re.compile(r"^src/cli/\w+\.cc$"), "CLI11 belongs in a .cc of src/cli"),
    (re.compile(r"^pcre2\.h$"), re.compile(r"^src/text/\w+\.cc$"), "PCRE2 belongs in src/text"),
    (re.compile(r"^(mpi|cuda\w*)\.h$"), re.compile(r"^$"), "not part of this program yet"),
]

PRINTS_OR_EXITS = re.compile(
    r"\b(?:v?printf|puts|putchar|perror)\s*\(|\bv?fprintf\s*\(\s*std"
    r"|\bf(?:puts|write)\s*\([^;]*\bstd(?:out|err)\b"
    r"|\bfmt::print\b|\bstd::(?:cout|cerr|clog)\b"
    r"|(?<![\w.>])(?:std::)?(?:_exit|exit|quick_exit)\s*\(")
# CHECK writes its last words itself.
PRINTERS = re.compile(r"^src/(cli/|base/check\.cc$)")

SOURCE_ENDINGS = (".cc", ".h", ".py", ".sh", ".cmake")
SOURCE_NAMES = ("CMakeLists.txt", "Makefile", "run")
SPDX = re.compile(r"^(?:// |# )?SPDX-License-Identifier: Apache-2\.0$", re.MULTILINE)
SKIPPED_FOLDERS = {".git", "build", "__pycache__", "third_party"}
# Written apart so that this file does not find itself.
LEFTOVERS = re.compile("TO" + "DO|FIX" + "ME")
FOREIGN_PLACES = re.compile(
    "/wo" + r"rk/|pypi\." + r"org|pythonhosted\." + r"org|debian\." + "org/")


class Tree:
    """The files of a tree, read once. `files`: relative path -> text (None where not UTF-8)."""

    def __init__(self, root):
        self.root = pathlib.Path(root)
        self.files = {}
        for path in sorted(self.root.rglob("*")):
            relative = path.relative_to(self.root)
            if SKIPPED_FOLDERS & set(relative.parts) or not path.is_file():
                continue
            try:
                self.files[relative.as_posix()] = path.read_text()
            except UnicodeDecodeError:
                self.files[relative.as_posix()] = None

    def sources(self):
        for name, text in self.files.items():
            last = name.rsplit("/", 1)[-1]
            if text is not None and (last.endswith(SOURCE_ENDINGS) or last in SOURCE_NAMES):
                yield name, text

    def cpp(self):
        return ((name, text) for name, text in self.sources() if name.endswith((".cc", ".h")))


def layers_of(tree):
    """room -> the set of rooms it may include, itself included."""
    rows = {}
    for line in tree.files.get("src/LAYERS", "").splitlines():
        if match := re.match(r"^([a-z]+):(.*)$", line):
            rows[match[1]] = {match[1], *match[2].split()}
    return rows


def includes_of(text):
    """(line number, header, is quoted) of each #include."""
    for number, line in enumerate(text.splitlines(), 1):
        if match := re.match(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', line):
            yield number, match[2], match[1] == '"'


def check_layers(tree):
    layers = layers_of(tree)
    if not layers:
        yield "src/LAYERS: no rows"
    order = list(layers)
    for room, allowed in layers.items():
        for other in allowed - {room}:
            if other not in order or order.index(other) > order.index(room):
                yield f"src/LAYERS: {room} names {other}, which does not come before it"
    for name, text in tree.cpp():
        if not name.startswith("src/"):
            continue
        room = name.split("/")[1]
        if room not in layers:
            yield f"{name}: src/LAYERS has no room {room}"
            continue
        for number, header, quoted in includes_of(text):
            other = header.split("/")[0]
            if other in layers and other not in layers[room]:
                yield f"{name}:{number}: {room} may not include {header} (src/LAYERS)"
            if quoted and "/" not in header:
                yield f'{name}:{number}: "{header}" must be written "room/file.h"'


def check_homes(tree):
    for name, text in tree.cpp():
        for number, header, _ in includes_of(text):
            for pattern, home, reason in HEADER_HOMES:
                if pattern.match(header) and name.startswith("src/") and not home.match(name):
                    yield f"{name}:{number}: <{header}>: {reason}"


def check_printing(tree):
    for name, text in tree.cpp():
        if not name.startswith("src/") or PRINTERS.match(name) or name.endswith("_test.cc"):
            continue
        for number, line in enumerate(tidy_cpp.code_only(text).splitlines(), 1):
            if match := PRINTS_OR_EXITS.search(line):
                yield f"{name}:{number}: only cli prints or exits ({match[0].strip()})"
            # Passing on is not ours, nor is the language's own word for "no memory".
            if re.search(r"\bthrow\b(?! std::bad_alloc\(\);|;)", line):
                yield f"{name}:{number}: no exceptions of ours"


def check_sizes(tree):
    unused = {"file": set(LONG_FILES_ALLOWED), "function": set(LONG_FUNCTIONS_ALLOWED)}
    for name, text in tree.sources():
        lines = text.splitlines()
        limit = MAX_LONG_FILE_LINES if LONG_FILES.search(name) else MAX_FILE_LINES
        if len(lines) > limit:
            if name in LONG_FILES_ALLOWED:
                unused["file"].discard(name)
            else:
                yield f"{name}: {len(lines)} lines, at most {limit}"
        for number, line in enumerate(lines, 1):
            if len(line) > MAX_COLUMNS and "Makefile" not in name:
                yield f"{name}:{number}: {len(line)} columns, at most {MAX_COLUMNS}"
        if not name.endswith((".cc", ".h")):
            continue
        for function in tidy_cpp.functions_of(text):
            if function.lines <= MAX_FUNCTION_LINES:
                continue
            key = f"{name}:{function.name}"
            if key in LONG_FUNCTIONS_ALLOWED:
                unused["function"].discard(key)
            else:
                yield (f"{name}:{function.line}: {function.name} has {function.lines} lines, "
                       f"at most {MAX_FUNCTION_LINES}")
    for kind, names in unused.items():
        for name in sorted(names):
            yield f"tests/tidy.py: the exemption of {kind} {name} is no longer needed"


def check_heads(tree):
    for name, text in tree.sources():
        if not SPDX.search("\n".join(text.splitlines()[:20])):
            yield f"{name}: no SPDX line, alone on it, in the first 20 lines"
        if name.endswith((".cc", ".h")) and not text.startswith("//"):
            yield f"{name}: does not start with a comment"
        # Highway includes its -inl.h files once for each target.
        if name.endswith(".h") and "-inl.h" not in name and "#pragma once" not in text:
            yield f"{name}: no #pragma once"


def check_leftovers(tree):
    for name, text in tree.files.items():
        if text is None or name in ("LICENSE", "CMakePresets.json") or name.startswith("data/"):
            continue
        if name.endswith((".json", ".tsv", ".txt")) and name.startswith("tests/"):
            continue
        for number, line in enumerate(text.splitlines(), 1):
            if match := LEFTOVERS.search(line):
                yield f"{name}:{number}: {match[0]}: file an issue or do it"
            if match := FOREIGN_PLACES.search(line):
                yield f"{name}:{number}: names a place outside the tree ({match[0]})"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", default=pathlib.Path(__file__).resolve().parent.parent)
    parser.add_argument("--ridge", help="the binary whose --help is held against the documents")
    arguments = parser.parse_args()
    tree = Tree(arguments.root)
    checks = [check_layers, check_homes, check_printing, check_sizes, check_heads,
              check_leftovers, tidy_docs.check_paths]
    findings = [finding for check in checks for finding in check(tree)]
    findings += tidy_docs.check_flags(tree, arguments.ridge)
    for finding in findings:
        print(finding)
    print(f"tidy: {len(tree.files)} files, {len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
