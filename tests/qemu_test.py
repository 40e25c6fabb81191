#!/usr/bin/env python3
"""The release binary on a CPU of 2008 (Nehalem: x86-64-v2, no AVX), by user-mode emulation: it must
fall back to the plain kernels and never meet an illegal instruction. Usage: qemu_test.py RIDGE

SPDX-License-Identifier: Apache-2.0
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

SKIPPED = 77
TINY_MODELS = pathlib.Path(__file__).parent / "data" / "tiny"


def run(command, environment):
    """None if it went well, else what went wrong."""
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False,
                          timeout=600, stdin=subprocess.DEVNULL)
    if done.returncode == 0:
        return None
    return (f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout[-2000:]}"
            f"{done.stderr[-2000:]}")


def main(ridge):
    qemu = shutil.which("qemu-x86_64") or shutil.which("qemu-x86_64-static")
    if qemu is None:
        print("SKIPPED: no qemu-x86_64 here (package qemu-user)")
        return SKIPPED
    emulated = [qemu, "-cpu", "Nehalem", ridge]
    with tempfile.TemporaryDirectory() as cache:
        # The machine that is measured here is an emulator: its figures stay out of the real cache.
        environment = dict(os.environ, XDG_CACHE_HOME=cache)
        environment.pop("RIDGE_ISA", None)
        version = subprocess.run(emulated + ["--version"], env=environment, capture_output=True,
                                 text=True, check=False)
        print(version.stdout, version.stderr, sep="", end="")
        if version.returncode != 0 or "isa: plain" not in version.stdout.splitlines():
            print(f"expected exit code 0 and the line 'isa: plain', got {version.returncode}")
            return 1
        models = sorted(TINY_MODELS.glob("*.gguf"))
        if not models:
            print(f"no tiny models in {TINY_MODELS}")
            return 1
        for model in models:
            wrong = run(emulated + ["run", str(model), "--raw", "-p", "a", "-n", "4",
                                    "--ignore-eos", "--threads", "1"], environment)
            if wrong:
                print(wrong)
                return 1
        environment["RIDGE_ISA"] = "avx2"
        forced = subprocess.run(emulated + ["run", str(models[0]), "--raw", "-p", "a"],
                                env=environment, capture_output=True, text=True, check=False)
        if forced.returncode != 2 or "avx2" not in forced.stderr:
            print(f"RIDGE_ISA=avx2 on a CPU without it gave exit code {forced.returncode}, "
                  f"expected a refusal\n{forced.stderr}")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
