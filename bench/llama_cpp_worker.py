#!/usr/bin/env python3
"""llama.cpp's side of compare_llama_cpp.py: one process, one model, one JSON request on stdin, one
JSON answer on stdout. Runs under a python that has llama-cpp-python.

Clocks run around llama.cpp's own calls and nothing else: not Python's start, not the import, not
the sampling. What Python itself holds in memory is reported apart, so that it can be left out.

SPDX-License-Identifier: Apache-2.0
"""

import ctypes
import json
import resource
import sys
import time

import llama_cpp
import numpy as np

BATCH = 512


def rss_peak_bytes():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


@llama_cpp.llama_log_callback
def silent(_level, _text, _data):
    pass


class Peer:
    def __init__(self, request):
        params = llama_cpp.llama_model_default_params()
        params.n_gpu_layers = 0
        self.model = llama_cpp.llama_model_load_from_file(request["model"].encode(), params)
        context = llama_cpp.llama_context_default_params()
        context.n_ctx = request["ctx"]
        context.n_batch = context.n_ubatch = BATCH
        context.n_threads = context.n_threads_batch = request["threads"]
        context.flash_attn_type = 1 if request["flash_attn"] else 0
        self.context = llama_cpp.llama_init_from_model(self.model, context)
        if not self.context:
            sys.exit("llama.cpp could not load the model")
        self.vocab = llama_cpp.llama_model_get_vocab(self.model)
        self.vocab_size = llama_cpp.llama_vocab_n_tokens(self.vocab)

    def tokens_of(self, text, add_special):
        data = text.encode()
        room = len(data) + 8
        ids = (llama_cpp.llama_token * room)()
        count = llama_cpp.llama_tokenize(self.vocab, data, len(data), ids, room, add_special, False)
        return list(ids[:count])

    def text_of(self, ids):
        out = b""
        for token in ids:
            buffer = ctypes.create_string_buffer(256)
            count = llama_cpp.llama_token_to_piece(self.vocab, token, buffer, 256, 0, False)
            out += buffer.raw[:count]
        return out.decode(errors="replace")

    def forget(self):
        llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(self.context), True)

    def evaluate(self, ids):
        """Seconds that llama.cpp takes for one batch."""
        tokens = (llama_cpp.llama_token * len(ids))(*ids)  # the batch only points at it
        batch = llama_cpp.llama_batch_get_one(tokens, len(ids))
        start = time.perf_counter()
        code = llama_cpp.llama_decode(self.context, batch)
        llama_cpp.llama_synchronize(self.context)
        seconds = time.perf_counter() - start
        if code != 0:
            sys.exit(f"llama_decode gave {code}")
        return seconds

    def logits(self):
        pointer = llama_cpp.llama_get_logits_ith(self.context, -1)
        return np.ctypeslib.as_array(pointer, shape=(self.vocab_size,))

    def decode(self, prompt, count):
        """Greedy ids, and the seconds of each step after the prompt."""
        self.forget()
        self.evaluate(prompt)
        ids, seconds = [], []
        for _ in range(count):
            ids.append(int(np.argmax(self.logits())))
            seconds.append(self.evaluate(ids[-1:]))
        return ids, seconds

    def mean_log_probability(self, prompt, ids):
        """Of `ids` after `prompt`, in nats per token: how sensible this model finds that text."""
        self.forget()
        self.evaluate(prompt)
        total = 0.0
        for token in ids:
            logits = self.logits().astype(np.float64)
            top = logits.max()
            total += logits[token] - top - np.log(np.exp(logits - top).sum())
            self.evaluate([token])
        return total / max(len(ids), 1)


def measure(request):
    python_bytes = rss_peak_bytes()
    start = time.perf_counter()
    peer = Peer(request)
    prompt = peer.tokens_of(request["prompt"], True)
    peer.evaluate(prompt)
    int(np.argmax(peer.logits()))
    first_token_seconds = time.perf_counter() - start
    ids, seconds = peer.decode(prompt, request["decode_tokens"])
    long = peer.tokens_of(request["long_prompt"], True)
    prefill_seconds = []
    for _ in range(request["prefill_tries"]):
        peer.forget()
        prefill_seconds.append(sum(peer.evaluate(long[begin:begin + BATCH])
                                   for begin in range(0, len(long), BATCH)))
    return {
        "text": peer.text_of(ids),
        "decode_tokens": len(seconds), "decode_seconds": sum(seconds),
        "prefill_tokens": len(long), "prefill_seconds": sorted(prefill_seconds)[
            len(prefill_seconds) // 2],
        "first_token_seconds": first_token_seconds,
        "rss_bytes": rss_peak_bytes() - python_bytes,
    }


def main():
    request = json.load(sys.stdin)
    llama_cpp.llama_log_set(silent, None)
    llama_cpp.llama_backend_init()
    if request["what"] == "measure":
        answer = measure(request)
    elif request["what"] == "count":
        peer = Peer(request)
        answer = {"counts": [len(peer.tokens_of(text, True)) for text in request["texts"]]}
    else:
        peer = Peer(request)
        prompt = peer.tokens_of(request["prompt"], True)
        answer = {"scores": [peer.mean_log_probability(prompt, peer.tokens_of(text, False))
                             for text in request["texts"]]}
    answer["version"] = llama_cpp.__version__
    answer["built_for"] = llama_cpp.llama_print_system_info().decode().strip()
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main()
