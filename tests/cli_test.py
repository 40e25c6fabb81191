#!/usr/bin/env python3
"""Bad input from the command line: the exit code (2 usage, 1 input), exactly one clear line on
stderr, nothing on stdout, and no crash. Usage: cli_test.py RIDGE [MODEL]

Without MODEL the first of tests/data/tiny/*.gguf is used, else $RIDGE_TEST_SMOLLM2.

SPDX-License-Identifier: Apache-2.0
"""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import unittest

USAGE, INPUT = 2, 1
SECONDS = 300  # sanitizers on a busy machine
# A sanitizer's report must not look like a refusal: both exit with 1 by default.
SANITIZER_EXIT = 99

RIDGE = "ridge"
MODEL = None


def tiny_model():
    tiny = sorted((pathlib.Path(__file__).parent / "data" / "tiny").glob("*.gguf"))
    return str(tiny[0]) if tiny else os.environ.get("RIDGE_TEST_SMOLLM2")


def ridge(*arguments, stdin=b""):
    environment = dict(os.environ)
    for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS"):
        environment[name] = f"{os.environ.get(name, '')}:exitcode={SANITIZER_EXIT}".lstrip(":")
    return subprocess.run([RIDGE, *arguments], input=stdin, capture_output=True, check=False,
                          timeout=SECONDS, env=environment)


class CliTest(unittest.TestCase):
    def assert_refused(self, code, words, *arguments, stdin=b""):
        """`words`: each must occur in the one line (regular expressions, any case)."""
        done = ridge(*arguments, stdin=stdin)
        told = done.stderr.decode(errors="replace")
        where = f"ridge {' '.join(map(repr, arguments))}\nexit code {done.returncode}\n{told}"
        self.assertEqual(done.returncode, code, where)
        self.assertEqual(done.stdout, b"", where)
        lines = told.splitlines()
        self.assertEqual(len(lines), 1, where)
        self.assertGreater(len(lines[0]), 20, where)
        for word in words:
            self.assertRegex(lines[0], re.compile(word, re.IGNORECASE), where)

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def file(self, name, content):
        path = self.folder / name
        path.write_bytes(content)
        return str(path)


class CliBadModel(CliTest):
    COMMANDS = (("run",), ("chat",), ("inspect",), ("tokenizer", "encode"), ("tokenizer", "decode"))

    def assert_all_refuse(self, words, path):
        for command in self.COMMANDS:
            with self.subTest(command=command):
                self.assert_refused(INPUT, words, *command, path, stdin=b"1\n")

    def test_a_missing_file_is_named(self):
        self.assert_all_refuse(["gone.gguf"], str(self.folder / "gone.gguf"))

    def test_a_directory_is_called_one(self):
        self.assert_all_refuse(["directory"], str(self.folder))

    def test_an_empty_file_is_called_empty(self):
        self.assert_all_refuse(["empty"], self.file("empty.gguf", b""))

    def test_a_file_that_is_not_gguf_is_refused(self):
        self.assert_all_refuse(["GGUF"], self.file("text.gguf", b"Hello, this is text. " * 20))

    def test_a_cut_gguf_is_refused(self):
        self.assert_all_refuse([], self.file("cut.gguf", b"GGUF\x03\x00\x00\x00" + b"\x01" * 8))

    def test_absurd_counts_are_refused_at_once(self):
        head = b"GGUF" + (3).to_bytes(4, "little") + b"\xff" * 16
        self.assert_all_refuse([], self.file("absurd.gguf", head + b"\x00" * 64))


class CliBadFlags(CliTest):
    def test_unknown_commands_and_flags_are_usage_errors(self):
        self.assert_refused(USAGE, ["frobnicate"], "frobnicate")
        self.assert_refused(USAGE, ["--frobnicate"], "run", "x.gguf", "--frobnicate")

    def test_a_missing_model_is_a_usage_error(self):
        for command in (["run"], ["chat"], ["inspect"], ["tokenizer", "encode"]):
            with self.subTest(command=command):
                self.assert_refused(USAGE, ["model"], *command)

    def test_impossible_values_are_usage_errors_that_name_the_flag(self):
        for flag, values in {
            "--temp": ["-1", "nan", "inf", "hot"],
            "--top-p": ["2", "-0.1", "nan"],
            "--min-p": ["2", "-0.1"],
            "--top-k": ["-3", "many"],
            "--threads": ["0", "-1", "1000000", "x"],
            "--ctx": ["0", "-5", "99999999999999999999"],
            "-n": ["-5", "1.5", "x"],
            "--seed": ["x", "-1"],
            "--repeat-penalty": ["-1", "0", "nan"],
            "--frequency-penalty": ["nan"],
            "--presence-penalty": ["inf"],
        }.items():
            for value in values:
                with self.subTest(flag=flag, value=value):
                    named = "-n|--max-tokens" if flag == "-n" else re.escape(flag)
                    self.assert_refused(USAGE, [named], "run", MODEL or "x.gguf",
                                        "-p", "a", f"{flag}={value}" if flag != "-n" else "-n",
                                        *([value] if flag == "-n" else []))

    def test_two_prompts_are_a_usage_error(self):
        text = self.file("prompt.txt", b"hello")
        self.assert_refused(USAGE, [], "run", MODEL or "x.gguf", "-p", "a", "-f", text)


class CliBadPrompt(CliTest):
    def setUp(self):
        super().setUp()
        if MODEL is None:
            self.skipTest("no model: neither tests/data/tiny/*.gguf nor $RIDGE_TEST_SMOLLM2")

    def test_an_empty_prompt_is_refused(self):
        self.assert_refused(INPUT, ["prompt", "empty"], "run", MODEL, "--raw", "-p", "")
        self.assert_refused(INPUT, ["prompt", "empty"], "run", MODEL, "--raw", "-", stdin=b"")

    def test_a_missing_prompt_file_is_named(self):
        self.assert_refused(INPUT, ["gone.txt"], "run", MODEL, "-f", str(self.folder / "gone.txt"))

    def test_an_invalid_utf8_prompt_is_refused(self):
        bad = self.file("bad.txt", b"abc\xff\xfe")
        self.assert_refused(INPUT, ["UTF-8"], "run", MODEL, "--raw", "-f", bad)
        self.assert_refused(INPUT, ["UTF-8"], "run", MODEL, "--raw", "-", stdin=b"\xc3")

    def test_a_prompt_longer_than_the_context_is_refused_with_both_lengths(self):
        long = self.file("long.txt", b"a b c d e f g h " * 40)
        self.assert_refused(INPUT, ["context", "16"], "run", MODEL, "--raw", "--ctx", "16", "-f",
                            long)

    def test_bad_token_ids_are_refused(self):
        for text in (b"x\n", b"-1\n", b"99999999\n", b"1.5\n"):
            with self.subTest(text=text):
                self.assert_refused(INPUT, [], "tokenizer", "decode", MODEL, stdin=text)


class CliGoodInput(CliTest):
    def test_version_names_the_kernel_family(self):
        done = ridge("--version")
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        self.assertRegex(done.stdout.decode(), r"(?m)^isa: (plain|avx2|avx512_vnni)$")

    def test_every_command_has_help_with_an_example(self):
        for command in ("run", "chat", "inspect", "tokenizer", "machine"):
            done = ridge(command, "--help")
            with self.subTest(command=command):
                self.assertEqual((done.returncode, done.stderr), (0, b""))
                self.assertIn(f"ridge {command}", done.stdout.decode())

    def test_a_wrong_isa_is_refused_by_name(self):
        environment = dict(os.environ, RIDGE_ISA="mmx")
        done = subprocess.run([RIDGE, "run", MODEL or "x.gguf", "-p", "a"], capture_output=True,
                              check=False, env=environment, timeout=SECONDS)
        self.assertEqual((done.returncode, done.stdout), (USAGE, b""))
        self.assertIn(b"mmx", done.stderr)

    def run_json(self, *more):
        done = ridge("run", MODEL, "--raw", "-p", "a", "-n", "4", "--temp", "0", "--ignore-eos",
                     "--json", *more)
        self.assertEqual(done.returncode, 0, done.stderr.decode(errors="replace"))
        return json.loads(done.stdout)

    def test_json_is_one_object_with_both_phases(self):
        if MODEL is None:
            self.skipTest("no model")
        answer = self.run_json()
        self.assertLessEqual({"model", "text", "tokens", "finish_reason", "prefill", "decode"},
                             set(answer))
        for phase in ("prefill", "decode"):
            self.assertLessEqual({"tokens", "ms", "tok_s", "weight_bytes_per_step",
                                  "kv_bytes_per_step", "step_ms", "floor_ms", "mbu", "mfu"},
                                 set(answer[phase]))
        self.assertEqual(answer["text"], self.run_json("--threads", "1")["text"])

    def test_tokenizer_gives_back_what_it_took(self):
        if MODEL is None:
            self.skipTest("no model")
        ids = ridge("tokenizer", "encode", MODEL, stdin=b"a b")
        self.assertEqual(ids.returncode, 0, ids.stderr)
        text = ridge("tokenizer", "decode", MODEL, stdin=ids.stdout)
        self.assertEqual(text.returncode, 0, text.stderr)
        self.assertIn(b"a b", text.stdout)

    def test_ctrl_c_ends_a_generation_cleanly(self):
        if MODEL is None:
            self.skipTest("no model")
        with subprocess.Popen([RIDGE, "run", MODEL, "--raw", "-p", "a", "--temp", "0",
                               "--ignore-eos", "-n", "100000000"], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE) as process:
            process.stdout.read(1)  # it is writing
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=SECONDS)
        self.assertIn(process.returncode, (0, 130), err.decode(errors="replace"))
        self.assertIn(b"decode", out + err)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("usage: cli_test.py RIDGE [MODEL]")
    RIDGE = sys.argv[1]
    MODEL = sys.argv[2] if len(sys.argv) > 2 else tiny_model()
    if ridge("run", "--help").returncode != 0:
        print("SKIPPED: this ridge has no command run")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1])
