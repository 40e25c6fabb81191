#!/usr/bin/env python3
"""clang-format and clang-tidy over the tree's C++, checking only.

Usage: lint.py --format-only | lint.py --build BUILD_FOLDER [--jobs N] [FILES...]. A tool that is
not here is said aloud; exit 77 if nothing could be checked at all.

SPDX-License-Identifier: Apache-2.0
"""

import argparse
import concurrent.futures
import json
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDERS = ("src", "tests", "fuzz", "bench")
# The versions that the tree is formatted and checked with: another one lays lines differently.
CLANG_FORMAT = "clang-format-16"
CLANG_TIDY = "clang-tidy-16"
SKIPPED = 77


def cpp_files():
    return sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*")
                  if path.suffix in (".cc", ".h"))


def check_format():
    tool = shutil.which(CLANG_FORMAT)
    if tool is None:
        print(f"SKIPPED: no {CLANG_FORMAT} here")
        return SKIPPED
    done = subprocess.run([tool, "--dry-run", "-Werror", *map(str, cpp_files())],
                          cwd=ROOT, check=False)
    return 1 if done.returncode else 0


def tidy_one(tool, build, path):
    # The database may hold g++'s flags.
    done = subprocess.run([tool, "--quiet", "-p", str(build),
                           "--extra-arg=-Wno-unknown-warning-option", str(path)],
                          capture_output=True, text=True, check=False)
    return path, done.returncode, done.stdout + done.stderr


def check_tidy(build, jobs, wanted):
    tool = shutil.which(CLANG_TIDY)
    database = build / "compile_commands.json"
    if tool is None or not database.is_file():
        print(f"SKIPPED: {'no ' + CLANG_TIDY if tool is None else f'no {database}'} here")
        return SKIPPED
    compiled = {pathlib.Path(entry["file"]).resolve() for entry in json.loads(database.read_text())}
    files = sorted(path for path in compiled if path.is_relative_to(ROOT / "src"))
    if wanted:
        files = [path for path in files if path in {pathlib.Path(w).resolve() for w in wanted}]
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for path, code, output in pool.map(lambda path: tidy_one(tool, build, path), files):
            if code != 0:
                failed += 1
                print(f"{path.relative_to(ROOT)}:\n{output}")
    print(f"clang-tidy: {len(files)} files, {failed} with findings")
    return 1 if failed else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--format-only", action="store_true")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("files", nargs="*", help="only these; default: all of src/")
    arguments = parser.parse_args()
    formatted = check_format()
    if arguments.format_only:
        return formatted
    tidied = check_tidy(arguments.build, arguments.jobs, arguments.files)
    if SKIPPED in (formatted, tidied) and 1 not in (formatted, tidied):
        return SKIPPED
    return 1 if 1 in (formatted, tidied) else 0


if __name__ == "__main__":
    sys.exit(main())
