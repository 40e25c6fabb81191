#!/usr/bin/env python3
"""Runs a command with one kernel family forced: with_isa.py ISA [--expect-line LINE] COMMAND...

Exit 77 (ctest: skipped) and a sentence where this CPU lacks the family. The flags are read here,
not asked of the program under test: one that wrongly denies having a family must not skip.

SPDX-License-Identifier: Apache-2.0
"""

import os
import pathlib
import subprocess
import sys

# Linux's names of what base/cpu_info asks CPUID for.
AVX2 = ["avx", "avx2", "fma", "f16c"]
FLAGS = {
    "plain": [],
    "avx2": AVX2,
    "avx512_vnni": AVX2 + ["avx512f", "avx512dq", "avx512bw", "avx512vl", "avx512cd",
                           "avx512_vnni"],
}
SKIPPED = 77


def cpu_flags():
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return set()
    for line in lines:
        if line.startswith("flags"):
            return set(line.split(":", 1)[1].split())
    return set()


def main(arguments):
    isa, command = arguments[0], arguments[1:]
    lacking = [flag for flag in FLAGS[isa] if flag not in cpu_flags()]
    if lacking:
        print(f"SKIPPED: this CPU lacks {isa} ({', '.join(lacking)})")
        return SKIPPED
    environment = dict(os.environ, RIDGE_ISA=isa)
    if command[0] != "--expect-line":
        return subprocess.run(command, env=environment, check=False).returncode
    expected, command = command[1], command[2:]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    print(done.stdout, done.stderr, sep="", end="")
    if done.returncode == 0 and expected in done.stdout.splitlines():
        return 0
    print(f"expected exit code 0 and the line '{expected}'; got exit code {done.returncode}")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
