#!/usr/bin/env python3
"""Bad input from the command line: the exit code (2 usage, 1 input), exactly one clear line on
stderr, nothing on stdout, and no crash. Usage: cli_test.py RIDGE

SPDX-License-Identifier: Apache-2.0
"""

import re

from cli_harness import BASE_MODEL, INPUT, MODEL, USAGE, CliTest, main


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
                    self.assert_refused(USAGE, [named], "run", MODEL,
                                        "-p", "a", f"{flag}={value}" if flag != "-n" else "-n",
                                        *([value] if flag == "-n" else []))

    def test_two_prompts_are_a_usage_error(self):
        text = self.file("prompt.txt", b"hello")
        self.assert_refused(USAGE, [], "run", MODEL, "-p", "a", "-f", text)

    def test_a_pre_tokeniser_that_cannot_be_is_a_usage_error(self):
        self.assert_refused(USAGE, ["--pre", "'gpt-3'", "qwen2"], "run", MODEL, "--pre", "gpt-3",
                            "-p", "a")
        self.assert_refused(USAGE, ["--pre", "SPM"], "tokenizer", "encode", BASE_MODEL, "--pre",
                            "gpt-2")


class CliBadPrompt(CliTest):
    def test_an_empty_prompt_is_refused(self):
        for raw in (["--raw"], []):
            self.assert_refused(INPUT, ["prompt", "empty"], "run", MODEL, *raw, "-p", "")
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


if __name__ == "__main__":
    main()
