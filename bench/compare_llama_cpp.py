#!/usr/bin/env python3
"""ridge beside llama.cpp: the same GGUF, the same threads, the same context, turn by turn.

Prints medians and ratios of decode (128 tokens after a short prompt), prefill (512 tokens), time to
the first token with a warm file cache, and peak memory; and what ridge's decode is of this
machine's measured bandwidth. llama.cpp is timed inside its process, around its own calls; ridge's
figures are those that its --json reports, sampling included, and its first token is timed from the
start of its process. With and without flash attention: the better counts. Exit 1: an output is
nonsense, or ridge reports more than its ceiling allows.

SPDX-License-Identifier: Apache-2.0
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

PEER_VERSION = "0.3.36"
DECODE_TOKENS = 128
PREFILL_TOKENS = 512
CONTEXT = 1024
NO_AMX = "-mno-amx-tile -mno-amx-int8 -mno-amx-bf16"
PROMPT = "The history of the bicycle begins in the early nineteenth century, when"
WORDS = ("the river runs past old houses and green fields while people walk to market and talk "
         "about rain bread horses and the price of wool").split()
# A continuation that llama.cpp finds this much less likely per token than its own is none.
NONSENSE_NATS = 1.5
WORKER = pathlib.Path(__file__).with_name("llama_cpp_worker.py")


def cache_folder():
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return pathlib.Path(base) / "ridge"


def install_peer(python, flags):
    """Builds llama.cpp for this CPU, with these compiler flags beside its own."""
    environment = dict(os.environ, CMAKE_ARGS="-DGGML_NATIVE=ON", CFLAGS=flags, CXXFLAGS=flags)
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--no-cache-dir",
                    "--force-reinstall", "--no-binary", "llama-cpp-python",
                    f"llama-cpp-python=={PEER_VERSION}"], check=True, env=environment)


def runs_here(python, model):
    request = {"what": "score", "model": model, "threads": 1, "ctx": 64, "flash_attn": False,
               "prompt": "a", "texts": ["b"]}
    done = subprocess.run([python, str(WORKER)], input=json.dumps(request), text=True,
                          stdout=subprocess.PIPE, check=False)
    return done.returncode == 0


def peer_python(model):
    """A python with llama-cpp-python built for this CPU; made at the first call (some minutes)."""
    venv = cache_folder() / f"llama-cpp-python-{PEER_VERSION}"
    python = str(venv / "bin" / "python")
    if (venv / "complete").exists() and runs_here(python, model):
        return python
    print(f"building llama-cpp-python {PEER_VERSION} for this CPU in {venv}; this takes minutes",
          file=sys.stderr)
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(venv)], check=True)
    install_peer(python, "")
    if not runs_here(python, model):
        # Some virtual machines announce AMX and then fault at its first instruction.
        print("llama.cpp crashes here as built; building it again without AMX", file=sys.stderr)
        install_peer(python, NO_AMX)
        if not runs_here(python, model):
            sys.exit("llama.cpp built for this CPU crashes on it; give one with --peer-python")
    (venv / "complete").touch()
    return python


class Comparison:
    def __init__(self, arguments):
        self.ridge = arguments.ridge
        self.model = str(arguments.model)
        self.threads = arguments.threads
        self.python = arguments.peer_python or peer_python(self.model)
        self.long_prompt = None

    def ask_peer(self, what, flash_attn=False, **more):
        request = dict(more, what=what, model=self.model, threads=self.threads, ctx=CONTEXT,
                       flash_attn=flash_attn)
        done = subprocess.run([self.python, str(WORKER)], input=json.dumps(request), text=True,
                              stdout=subprocess.PIPE, check=False)
        if done.returncode != 0:
            sys.exit(f"llama.cpp's side failed with exit code {done.returncode}")
        return json.loads(done.stdout)

    def measure_peer(self, flash_attn):
        return self.ask_peer("measure", flash_attn, prompt=PROMPT, long_prompt=self.long_prompt,
                             decode_tokens=DECODE_TOKENS, prefill_tries=3)

    def run_ridge(self, *more):
        """(stdout, seconds to the first byte of it, peak resident bytes)"""
        command = [self.ridge, "run", self.model, "--raw", "--temp", "0", "--ignore-eos",
                   "--ctx", str(CONTEXT), "--threads", str(self.threads), *more]
        with tempfile.TemporaryFile() as errors:
            start = time.perf_counter()
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                       stderr=errors)
            first = process.stdout.read(1)
            seconds = time.perf_counter() - start
            out = first + process.stdout.read()
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            process.stdout.close()
            if process.returncode != 0:
                errors.seek(0)
                sys.exit(f"{' '.join(command)}: exit code {process.returncode}: "
                         f"{errors.read().decode(errors='replace').strip()}")
        return out, seconds, usage.ru_maxrss * 1024

    def measure_ridge(self):
        out, _, decode_rss = self.run_ridge("-p", PROMPT, "-n", str(DECODE_TOKENS), "--json")
        generation = json.loads(out)
        out, _, prefill_rss = self.run_ridge("-p", self.long_prompt, "-n", "1", "--json")
        prefill = json.loads(out)["prefill"]
        _, first_token_seconds, _ = self.run_ridge("-p", PROMPT, "-n", "1")
        return {"text": generation["text"], "decode": generation["decode"], "prefill": prefill,
                "first_token_seconds": first_token_seconds,
                "rss_bytes": max(decode_rss, prefill_rss)}

    def find_long_prompt(self):
        """Words that llama.cpp cuts into just PREFILL_TOKENS tokens."""
        texts = [" ".join(WORDS[i % len(WORDS)] for i in range(count))
                 for count in range(PREFILL_TOKENS // 3, PREFILL_TOKENS + 1)]
        counts = self.ask_peer("count", texts=texts)["counts"]
        best = min(range(len(texts)), key=lambda i: abs(counts[i] - PREFILL_TOKENS))
        if abs(counts[best] - PREFILL_TOKENS) > 2:
            sys.exit(f"found no prompt of {PREFILL_TOKENS} tokens; nearest: {counts[best]}")
        self.long_prompt = texts[best]

    def refuse_nonsense(self, ridge_text, peer_text):
        own, other = self.ask_peer("score", prompt=PROMPT, texts=[peer_text, ridge_text])["scores"]
        print(f"likelihood per token of the continuations, by llama.cpp: its own {own:.2f} nats, "
              f"ridge's {other:.2f}")
        if not ridge_text.strip() or not other > own - NONSENSE_NATS:
            sys.exit(f"ridge wrote nonsense, nothing to compare: {ridge_text[:200]!r}")
        if not peer_text.strip():
            sys.exit("llama.cpp wrote nothing, nothing to compare")


def median(values):
    return statistics.median(values)


def peer_medians(runs):
    return {
        "decode": median(r["decode_tokens"] / r["decode_seconds"] for r in runs),
        "prefill": median(r["prefill_tokens"] / r["prefill_seconds"] for r in runs),
        "first": median(r["first_token_seconds"] for r in runs),
        "rss": median(r["rss_bytes"] for r in runs),
    }


def print_table(ridge, peer):
    rows = [
        (f"decode, {DECODE_TOKENS} tokens", "tok/s", ridge["decode"], peer["decode"], False),
        (f"prefill, {PREFILL_TOKENS} tokens", "tok/s", ridge["prefill"], peer["prefill"], False),
        ("start to first token", "ms", ridge["first"] * 1e3, peer["first"] * 1e3, True),
        ("peak memory", "MB", ridge["rss"] / 1e6, peer["rss"] / 1e6, True),
    ]
    print(f"{'':24} {'':6} {'ridge':>10} {'llama.cpp':>10} {'ridge is':>12}")
    for name, unit, ours, theirs, less_is_better in rows:
        ratio = theirs / ours if less_is_better else ours / theirs
        word = ("smaller" if unit == "MB" else "faster") if ratio >= 1 else (
            "larger" if unit == "MB" else "slower")
        print(f"{name:24} {unit:6} {ours:10.1f} {theirs:10.1f} "
              f"{max(ratio, 1 / ratio):7.2f}x {word}")


def print_physics(decodes, prefills):
    decode = decodes[len(decodes) // 2]
    streamed = decode["weight_bytes_per_step"] + decode["kv_bytes_per_step"]
    rate = streamed / (decode["step_ms"] * 1e-3)
    print(f"ridge's decode step: {streamed / 1e6:.1f} MB in {decode['step_ms']:.3f} ms = "
          f"{rate / 1e9:.1f} GB/s, {decode['mbu'] * 100:.0f} % of the measured bandwidth; "
          f"floor {decode['floor_ms']:.3f} ms")
    print(f"ridge's prefill: {prefills[len(prefills) // 2]['mfu'] * 100:.0f} % of the measured "
          f"multiply peak")


def over_the_ceiling(phases):
    return [(name, figure, phase[figure]) for name, phase in phases for figure in ("mbu", "mfu")
            if phase[figure] is not None and phase[figure] > 1]


def compare(arguments):
    comparison = Comparison(arguments)
    comparison.find_long_prompt()
    ridge_runs, peer_runs = [], {False: [], True: []}
    for turn in range(arguments.turns + 1):  # the first warms the file cache and counts for nothing
        print(f"turn {turn} of {arguments.turns}", file=sys.stderr)
        measured = comparison.measure_ridge()
        peers = {flash: comparison.measure_peer(flash) for flash in (False, True)}
        if turn == 0:
            comparison.refuse_nonsense(measured["text"], peers[False]["text"])
            continue
        ridge_runs.append(measured)
        for flash, answer in peers.items():
            peer_runs[flash].append(answer)
    both = [peer_medians(runs) for runs in peer_runs.values()]
    peer = {key: (max if key in ("decode", "prefill") else min)(m[key] for m in both)
            for key in both[0]}
    ridge = {
        "decode": median(r["decode"]["tok_s"] for r in ridge_runs),
        "prefill": median(r["prefill"]["tok_s"] for r in ridge_runs),
        "first": median(r["first_token_seconds"] for r in ridge_runs),
        "rss": median(r["rss_bytes"] for r in ridge_runs),
    }
    version = peer_runs[False][0]
    print(f"{arguments.model.name}, {arguments.threads} threads, context {CONTEXT}, medians of "
          f"{arguments.turns} turns; llama-cpp-python {version['version']}")
    print(f"llama.cpp: {version['built_for']}")
    print_table(ridge, peer)
    decodes = sorted((r["decode"] for r in ridge_runs), key=lambda d: d["step_ms"])
    prefills = sorted((r["prefill"] for r in ridge_runs), key=lambda p: p["ms"])
    print_physics(decodes, prefills)
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps({"ridge": ridge, "llama_cpp": peer}))
    over = over_the_ceiling([("decode", d) for d in decodes] + [("prefill", p) for p in prefills])
    for name, figure, value in over:
        print(f"{name}: {figure} is {value:.3f}: nothing beats its floor, so a ceiling is too low "
              "(`ridge machine --refresh` on a quiet machine) or a count is wrong")
    return 1 if over else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=pathlib.Path, required=True, help="a GGUF file")
    parser.add_argument("--ridge", default="build/release/ridge")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--turns", type=int, default=5, help="odd, so that the median is a run")
    parser.add_argument("--peer-python", help="a python with llama-cpp-python built for this CPU; "
                        "default: a venv of its own, made at the first call")
    parser.add_argument("--json", help="also write the medians to this file")
    return compare(parser.parse_args())


if __name__ == "__main__":
    sys.exit(main())
