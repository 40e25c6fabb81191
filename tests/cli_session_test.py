#!/usr/bin/env python3
"""What the commands print when all is well, and what becomes of a conversation and of Ctrl-C.
Usage: cli_session_test.py RIDGE, with $RIDGE_TEST_SMOLLM2 for what needs a model that can chat.

SPDX-License-Identifier: Apache-2.0
"""

import json
import re
import signal
import subprocess
import unittest

import gguf_split
from cli_harness import BASE_MODEL, INPUT, MODEL, RIDGE, SECONDS, SMOLLM2, USAGE, CliTest
from cli_harness import environment, main

PHASE_FIELDS = {"tokens", "ms", "tok_s", "weight_bytes_per_step", "kv_bytes_per_step", "step_ms",
                "floor_ms", "mbu", "mfu"}
needs_smollm2 = unittest.skipIf(SMOLLM2 is None, "no $RIDGE_TEST_SMOLLM2")


def rows_of(table, phase):
    """The token counts in the rows of `phase`, one for each table that was printed."""
    return [int(n) for n in re.findall(rf"(?m)^{phase} +(\d+) .*M[BF]U", table)]


class CliRun(CliTest):
    def answer(self, *more, model=MODEL):
        out, told = self.ask("run", model, "--raw", "-p", "a b", "-n", "24", "--temp", "0",
                             "--ignore-eos", "--json", *more)
        self.assertEqual(told, "")
        return json.loads(out)  # fails on anything beside the one object

    def test_json_is_one_object_with_both_phases(self):
        answer = self.answer()
        self.assertLessEqual({"model", "text", "tokens", "finish_reason", "prefill", "decode"},
                             set(answer))
        self.assertEqual((answer["model"], answer["finish_reason"]), (MODEL, "length"))
        self.assertEqual(len(answer["tokens"]), 24)
        for phase in ("prefill", "decode"):
            self.assertLessEqual(PHASE_FIELDS, set(answer[phase]))
        # The first token comes out of the prefill.
        self.assertEqual(answer["decode"]["tokens"], 23)
        self.assertEqual(answer["prefill"]["tokens"], answer["prompt_tokens"])
        decode = answer["decode"]
        self.assertAlmostEqual(decode["step_ms"] * 23, decode["ms"], places=6)
        self.assertLess(decode["floor_ms"], decode["step_ms"])

    def test_threads_do_not_change_the_text(self):
        for mode in ([], ["--exact"]):
            with self.subTest(mode=mode):
                self.assertEqual(self.answer("--threads", "1", *mode)["tokens"],
                                 self.answer("--threads", "2", *mode)["tokens"])

    def test_a_seed_repeats_itself(self):
        hot = ("run", MODEL, "--raw", "-p", "a", "-n", "24", "--temp", "2", "--ignore-eos",
               "--json")
        texts = [json.loads(self.ask(*hot, "--seed", seed)[0])["tokens"]
                 for seed in ("1", "1", "2")]
        self.assertEqual(texts[0], texts[1])
        self.assertNotEqual(texts[0], texts[2])

    def test_prompts_come_from_a_flag_a_file_or_a_pipe(self):
        common = ("--raw", "-n", "8", "--temp", "0", "--ignore-eos")
        by_flag, _ = self.ask("run", MODEL, "-p", "a b", *common)
        by_file, _ = self.ask("run", MODEL, "-f", self.file("p.txt", b"a b"), *common)
        by_pipe, _ = self.ask("run", MODEL, "-", *common, stdin=b"a b")
        self.assertEqual(by_flag, by_file)
        self.assertEqual(by_flag, by_pipe)

    def test_the_table_follows_the_text_on_stderr(self):
        out, told = self.ask("run", MODEL, "--raw", "-p", "a", "-n", "8", "--ignore-eos")
        for word in ("prefill", "decode", "floor ms", "MBU", "MFU", "TTFT", "TPOT",
                     "(1) KV reads", "(2) inside kernels", "(3) outside kernels"):
            self.assertIn(word, told)
            self.assertNotIn(word, out)

    def test_profile_adds_a_row_for_each_kind_of_op(self):
        _, told = self.ask("run", MODEL, "--raw", "-p", "a", "-n", "8", "--ignore-eos", "--profile")
        for stage in ("embed", "attention", "qkv", "lm_head"):
            self.assertRegex(told, rf"(?m)^{stage} +\d")

    def test_verbose_prints_the_same_hash_of_the_same_logits(self):
        hashes = [re.findall(r"[0-9a-f]{16}", self.ask(
            "run", MODEL, "--raw", "-p", "a", "-n", "4", "--temp", "0", "--verbose")[1])
            for _ in range(2)]
        self.assertEqual(len(hashes[0]), 1)
        self.assertEqual(hashes[0], hashes[1])

    def test_a_stop_string_ends_the_text_before_it(self):
        whole = self.answer()["text"]
        stop = next(whole[i:i + 2] for i in range(3, len(whole)) if whole[i:i + 2].isascii())
        told = self.answer("--stop", "never said", "--stop", stop)
        self.assertEqual(told["finish_reason"], "stop")
        self.assertEqual(told["text"], whole[:whole.index(stop)])

    def test_ctrl_c_ends_a_generation_cleanly(self):
        # A tiny model writes fast: the context is widened so that it writes for long enough.
        model = [SMOLLM2] if SMOLLM2 else [MODEL, "--ctx", "60000"]
        with subprocess.Popen([RIDGE, "run", *model, "--raw", "-p", "a", "--temp", "0",
                               "--ignore-eos"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, env=environment()) as process:
            process.stdout.read(1)  # it is writing
            process.send_signal(signal.SIGINT)
            _, told = process.communicate(timeout=SECONDS)
        told = told.decode(errors="replace")
        self.assertEqual(process.returncode, 0, told)
        self.assertEqual(len(rows_of(told, "prefill")), 1, told)
        self.assertIn("finish: cancelled", told)

    def test_a_split_model_loads_by_its_first_part(self):
        parts = gguf_split.split(MODEL, self.folder / "cut", 3)
        whole, cut = self.answer(), self.answer(model=str(parts[0]))
        self.assertEqual(whole["tokens"], cut["tokens"])
        self.assert_refused(INPUT, ["part 2", parts[0].name], "run", str(parts[1]), "-p", "a")
        parts[2].unlink()
        self.assert_refused(INPUT, [parts[2].name], "run", str(parts[0]), "-p", "a")


class CliChat(CliTest):
    def test_a_model_without_template_does_not_chat(self):
        self.assert_refused(INPUT, ["chat template", "--raw"], "chat", BASE_MODEL, stdin=b"hi\n")

    def chat(self, lines, *more):
        return self.ask("chat", SMOLLM2, "--temp", "0", "-n", "24", *more,
                        stdin="".join(line + "\n" for line in lines).encode())

    @needs_smollm2
    def test_the_second_turn_prefills_only_what_is_new(self):
        _, told = self.chat(["Hi", "/stats", "And what is 2+2?", "/stats"])
        first, second = rows_of(told, "prefill")
        # <|im_end|> \n <|im_start|>user \n ... : the question's own ids and some of the template.
        ids, _ = self.ask("tokenizer", "encode", SMOLLM2, "-p", "And what is 2+2?", "--no-special")
        question = len(ids.split())
        self.assertGreaterEqual(second, question)
        self.assertLessEqual(second, question + 12)
        self.assertGreater(first, second)  # the system message came with the first

    @needs_smollm2
    def test_clear_forgets_the_conversation(self):
        out, told = self.chat(["Hi", "/stats", "/clear", "Hi", "/stats"])
        first, second = out.splitlines()
        self.assertEqual(first, second)
        rows = rows_of(told, "prefill")
        self.assertEqual(rows[0], rows[1])

    @needs_smollm2
    def test_save_writes_the_conversation_as_json(self):
        path = self.folder / "talk.json"
        out, _ = self.chat(["Hi", f"/save {path}"], "--system", "Be brief.")
        talk = json.loads(path.read_text())
        self.assertEqual(talk["model"], SMOLLM2)
        self.assertEqual(talk["messages"],
                         [{"role": "system", "content": "Be brief."},
                          {"role": "user", "content": "Hi"},
                          {"role": "assistant", "content": out.rstrip("\n")}])
        _, told = self.chat([f"/save {self.folder}/no/such/folder.json"])
        self.assertIn("no/such/folder.json", told)

    @needs_smollm2
    def test_help_lists_the_commands_and_a_wrong_one_points_there(self):
        out, told = self.chat(["/help", "/bogus"])
        self.assertEqual(out, "")
        for word in ("/clear", "/stats", "/save", "unknown command '/bogus'"):
            self.assertIn(word, told)

    @needs_smollm2
    def test_an_answer_to_a_chat_is_the_answer_to_a_run(self):
        run, _ = self.ask("run", SMOLLM2, "-p", "Hi", "--temp", "0", "-n", "24")
        talk, _ = self.chat(["Hi"])
        self.assertEqual(run, talk)


class CliTools(CliTest):
    def test_version_names_the_kernel_family(self):
        out, told = self.ask("--version")
        self.assertEqual(told, "")
        self.assertRegex(out, r"(?m)^isa: (plain|avx2|avx512_vnni)$")

    def test_every_command_has_help_with_an_example(self):
        for command in ("run", "chat", "inspect", "tokenizer", "machine"):
            with self.subTest(command=command):
                out, told = self.ask(command, "--help")
                self.assertEqual(told, "")
                self.assertIn(f"ridge {command}", out)

    def test_a_wrong_isa_is_refused_by_name(self):
        self.assert_refused(USAGE, ["mmx"], "run", MODEL, "-p", "a", RIDGE_ISA="mmx")

    def test_tokenizer_gives_back_what_it_took(self):
        for model in filter(None, (MODEL, BASE_MODEL, SMOLLM2)):
            with self.subTest(model=model):
                ids, _ = self.ask("tokenizer", "encode", model, stdin=b"a b")
                text, _ = self.ask("tokenizer", "decode", model, stdin=ids.encode())
                self.assertIn("a b", text)

    def test_tokenizer_speaks_json(self):
        for model in filter(None, (MODEL, SMOLLM2)):
            with self.subTest(model=model):
                words = "one two, 345!"
                out, _ = self.ask("tokenizer", "encode", model, "-p", words, "--json",
                                  "--no-special")
                encoded = json.loads(out)
                self.assertEqual(len(encoded["ids"]), len(encoded["pieces"]))
                out, _ = self.ask("tokenizer", "decode", model, *map(str, encoded["ids"]), "--json")
                self.assertEqual(json.loads(out), {"text": words})

    def test_inspect_speaks_json(self):
        out, _ = self.ask("inspect", MODEL, "--json")
        facts = json.loads(out)
        self.assertEqual(facts["spec"]["architecture"], "llama")
        self.assertEqual(facts["tokenizer"]["model"], "bpe")
        elements = 0
        for tensor in facts["tensors"]:
            self.assertEqual(set(tensor), {"name", "dtype", "shape", "bytes"})
            count = 1
            for side in tensor["shape"]:
                count *= side
            elements += count
        self.assertEqual(elements, facts["spec"]["parameters"])

    def test_inspect_prints_the_program_with_its_work(self):
        one, four = (json.loads(self.ask("inspect", MODEL, "--program", "--json", "--batch", batch,
                                         "--context", "100")[0])["program"] for batch in "14")
        self.assertEqual([op["stage"] for op in one], [op["stage"] for op in four])
        for a, b in zip(one, four):
            self.assertEqual(4 * a["work"]["flops"], b["work"]["flops"])
            self.assertEqual(4 * a["work"]["kv_read_bytes"], b["work"]["kv_read_bytes"])
            if a["stage"] != "embed":
                self.assertEqual(a["work"]["weight_bytes"], b["work"]["weight_bytes"])
        self.assertGreater(sum(op["work"]["kv_read_bytes"] for op in one), 0)
        out, _ = self.ask("inspect", MODEL, "--program")
        self.assertRegex(out, r"(?m)  total$")

    def test_machine_speaks_json(self):
        out, _ = self.ask("machine", "--json")
        profile = json.loads(out)
        self.assertGreater(profile["usable_cpus"], 0)
        self.assertRegex(profile["date"], r"^\d{4}-\d\d-\d\dT")
        self.assertEqual(self.ask("machine", "--json")[0], out)  # from the file, not measured again

    def test_a_full_disk_is_an_error(self):
        for command in (["inspect", MODEL], ["inspect", MODEL, "--json"],
                        ["run", MODEL, "--raw", "-p", "a", "-n", "4"]):
            with self.subTest(command=command), open("/dev/full", "wb") as full:
                done = subprocess.run([RIDGE, *command], stdout=full, stderr=subprocess.PIPE,
                                      stdin=subprocess.DEVNULL, check=False, timeout=SECONDS,
                                      env=environment())
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertIn(b"standard output", done.stderr)


if __name__ == "__main__":
    main()
