"""What the tests of the command line share: the binary, a model, and how both are called.

A tiny random model from tests/data/tiny serves where any model does; the real one comes from
$RIDGE_TEST_SMOLLM2, and what needs it is skipped without.

SPDX-License-Identifier: Apache-2.0
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

USAGE, INPUT = 2, 1
SECONDS = 300  # sanitizers on a busy machine
# A sanitizer's report must not look like a refusal: both exit with 1 by default.
SANITIZER_EXIT = 99
SKIPPED = 77

RIDGE = sys.argv[1] if len(sys.argv) > 1 else "ridge"
TINY = pathlib.Path(__file__).parent / "data" / "tiny"
MODEL = str(TINY / "llama.gguf")
BASE_MODEL = str(TINY / "gemma3.gguf")  # no chat template
SMOLLM2 = os.environ.get("RIDGE_TEST_SMOLLM2")


def environment(**more):
    result = dict(os.environ, **more)
    for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS"):
        result[name] = f"{os.environ.get(name, '')}:exitcode={SANITIZER_EXIT}".lstrip(":")
    return result


def ridge(*arguments, stdin=b"", **variables):
    return subprocess.run([RIDGE, *arguments], input=stdin, capture_output=True, check=False,
                          timeout=SECONDS, env=environment(**variables))


class CliTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def file(self, name, content):
        path = self.folder / name
        path.write_bytes(content)
        return str(path)

    def assert_refused(self, code, words, *arguments, stdin=b"", **variables):
        """`words`: each must occur in the one line (regular expressions, any case)."""
        done = ridge(*arguments, stdin=stdin, **variables)
        told = done.stderr.decode(errors="replace")
        where = f"ridge {' '.join(map(repr, arguments))}\nexit code {done.returncode}\n{told}"
        self.assertEqual(done.returncode, code, where)
        self.assertEqual(done.stdout, b"", where)
        lines = told.splitlines()
        self.assertEqual(len(lines), 1, where)
        self.assertGreater(len(lines[0]), 20, where)
        for word in words:
            self.assertRegex(lines[0], re.compile(word, re.IGNORECASE), where)

    def ask(self, *arguments, stdin=b""):
        """(stdout, stderr) of a call that must go well."""
        done = ridge(*arguments, stdin=stdin)
        told = done.stderr.decode(errors="replace")
        self.assertEqual(done.returncode, 0, f"ridge {arguments}\n{told}")
        return done.stdout.decode(), told


def main():
    if len(sys.argv) != 2:
        sys.exit(f"usage: {sys.argv[0]} RIDGE")
    if not pathlib.Path(MODEL).is_file():
        sys.exit(f"no {MODEL}")
    unittest.main(argv=sys.argv[:1])
