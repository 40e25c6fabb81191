#!/usr/bin/env python3
# Makes the golden files of the real models: fp32 logits and greedy text by transformers, and how
# far llama.cpp is from them. The model is filled by hand from the GGUF's own dequantised tensors,
# so the oracle sees exactly the numbers that ridge sees; nothing here is read by the product.
# SPDX-License-Identifier: Apache-2.0
"""See tools/README.md for how to run this and for the fields of the output."""

import argparse
import datetime
import hashlib
import importlib.metadata
import json
import math
import pathlib
import subprocess
import sys
import tempfile

import gguf
import numpy as np
import torch
import transformers

THREADS = 2
GREEDY_TOKENS = 64
TOP_LAST = 20
TOP_PASSAGE = 64
PASSAGE_STRIDE = 8
DATA = pathlib.Path(__file__).resolve().parent.parent / "tests" / "data" / "golden"

PROMPTS = [
    ("short", "The capital of France is", False),
    ("digits", "In 1969, 2 men walked 384400 km away; 12345 + 67890 =", False),
    ("code", "def fibonacci(n):\n    \"\"\"Return the n-th Fibonacci number.\"\"\"\n"
             "    if n < 2:\n        return n\n\treturn", False),
    ("non_latin", "東京は日本の首都です。 العربية لغة جميلة، हिन्दी भारत में बोली जाती है।", False),
    ("emoji", "I love 🍕 and 👩‍👩‍👧‍👦! 🇫🇷🎉 So tonight we will", False),
    ("space", " ", False),
    ("newline", "\n", False),
    ("spaces", "  Two  leading,   three inner and trailing   ", False),
]
CHAT = {
    "llama": "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging"
             " Face<|im_end|>\n<|im_start|>user\nWhy is the sky blue?<|im_end|>\n"
             "<|im_start|>assistant\n",
    "gemma3": "<start_of_turn>user\nWhy is the sky blue?<end_of_turn>\n<start_of_turn>model\n",
}

# Runs under the interpreter that has llama_cpp: argv is a JSON job, logits go to an .npy file.
PEER_SCRIPT = r"""
import json, sys, numpy as np, llama_cpp
job = json.load(open(sys.argv[1]))
if job["plain_buffers"]:
    default_params = llama_cpp.llama_cpp.llama_model_default_params
    def plain_params():
        params = default_params()
        params.use_extra_bufts = False
        return params
    llama_cpp.llama_cpp.llama_model_default_params = plain_params
# llama-cpp-python's defaults, but for what the job names: context, all logits, threads.
m = llama_cpp.Llama(job["model"], n_ctx=job["n_ctx"], logits_all=True, verbose=False,
                    n_threads=job["threads"], n_threads_batch=job["threads"], **job["options"])
tokens = [m.tokenize(t.encode(), add_bos=True, special=s) for t, s in job["texts"]]
m.eval(job["ids"])
np.save(job["out"], m.scores[:len(job["ids"])].astype(np.float32))
json.dump({"version": llama_cpp.__version__, "tokens": tokens,
           "system": llama_cpp.llama_print_system_info().decode()}, open(job["reply"], "w"))
"""


def significant(values, digits):
    """Floats rounded to that many significant digits, as a plain list (or one float)."""
    array = np.asarray(values, dtype=np.float64)
    if array.ndim == 0:
        return float(f"{float(array):.{digits}g}")
    return [float(f"{v:.{digits}g}") for v in array]


class GgufFile:
    """Metadata and fp32 tensors of one GGUF; tensors are (rows, columns) as torch has them."""

    def __init__(self, path):
        self.path = str(path)
        self.reader = gguf.GGUFReader(self.path)
        self.arch = self.get("general.architecture")
        self.tensors = {t.name: t for t in self.reader.tensors}

    def get(self, key, default=None):
        field = self.reader.get_field(key)
        return default if field is None else field.contents()

    def hyper(self, key, default=None):
        return self.get(f"{self.arch}.{key}", default)

    def tensor(self, name):
        """The tensor's numbers in fp32, widened exactly from its block format."""
        t = self.tensors[name]
        shape = [int(d) for d in reversed(t.shape)]
        return np.array(gguf.quants.dequantize(t.data, t.tensor_type), np.float32).reshape(shape)


LAYER_NAMES = {
    "attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm",
    "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
}
NORM_NAMES = {
    "gemma3": {"post_attention_norm": "post_attention_layernorm",
               "ffn_norm": "pre_feedforward_layernorm",
               "post_ffw_norm": "post_feedforward_layernorm"},
    "other": {"ffn_norm": "post_attention_layernorm"},
}


def hf_name(arch, name):
    """transformers' name of a GGUF tensor, or None for rope_freqs (it is no parameter there)."""
    fixed = {"token_embd.weight": "model.embed_tokens.weight",
             "output_norm.weight": "model.norm.weight", "output.weight": "lm_head.weight",
             "rope_freqs.weight": None}
    if name in fixed:
        return fixed[name]
    _, layer, kind, leaf = name.split(".")
    kinds = {**LAYER_NAMES, **NORM_NAMES.get(arch, NORM_NAMES["other"])}
    return f"model.layers.{layer}.{kinds[kind]}.{leaf}"


def interleave(w, heads):
    """Rows of a q or k projection from half-split RoPE pairs to adjacent pairs (llama's GGUF)."""
    return w.reshape(heads, 2, w.shape[0] // heads // 2, -1).swapaxes(1, 2).reshape(w.shape)


def uninterleave(w, heads):
    """The inverse of interleave."""
    return w.reshape(heads, w.shape[0] // heads // 2, 2, -1).swapaxes(1, 2).reshape(w.shape)


def config_of(g):
    """transformers' config of a GGUF; what gemma3's metadata lacks is Gemma3TextConfig's default
    (pattern of six, local base 1e4), query_pre_attn_scalar is the head width (as in 270M)."""
    heads = g.hyper("attention.head_count")
    width = g.hyper("embedding_length")
    head_dim = g.hyper("attention.key_length", width // heads)
    theta = g.hyper("rope.freq_base", 10000.0)
    rope = {"rope_type": "default", "rope_theta": theta}
    if g.hyper("rope.scaling.type") == "linear":
        rope = {"rope_type": "linear", "rope_theta": theta,
                "factor": g.hyper("rope.scaling.factor")}
    common = dict(
        vocab_size=int(g.tensors["token_embd.weight"].shape[1]), hidden_size=width,
        intermediate_size=g.hyper("feed_forward_length"), num_hidden_layers=g.hyper("block_count"),
        num_attention_heads=heads, num_key_value_heads=g.hyper("attention.head_count_kv", heads),
        head_dim=head_dim, rms_norm_eps=g.hyper("attention.layer_norm_rms_epsilon"),
        max_position_embeddings=g.hyper("context_length"), pad_token_id=None,
        tie_word_embeddings="output.weight" not in g.tensors, rope_parameters=rope)
    if g.arch == "gemma3":
        common["rope_parameters"] = {
            "full_attention": rope,
            "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}}
        return transformers.Gemma3TextConfig(
            **common, sliding_window=g.hyper("attention.sliding_window"),
            query_pre_attn_scalar=head_dim)
    kinds = {"llama": transformers.LlamaConfig, "qwen2": transformers.Qwen2Config,
             "qwen3": transformers.Qwen3Config}
    return kinds[g.arch](**common)


MODEL_CLASSES = {"llama": "LlamaForCausalLM", "qwen2": "Qwen2ForCausalLM",
                 "qwen3": "Qwen3ForCausalLM", "gemma3": "Gemma3ForCausalLM"}


def load_model(g):
    """An fp32 transformers model, every parameter taken from the file (strict both ways)."""
    config = config_of(g)
    config._attn_implementation = "eager"
    model = getattr(transformers, MODEL_CLASSES[g.arch])(config).float().eval()
    state = {}
    for name in g.tensors:
        target = hf_name(g.arch, name)
        if target is None:
            continue
        w = g.tensor(name)
        if g.arch == "llama" and (".attn_q." in name or ".attn_k." in name):
            is_q = ".attn_q." in name
            w = uninterleave(w, config.num_attention_heads if is_q else config.num_key_value_heads)
        if g.arch == "gemma3" and name.endswith("norm.weight"):
            w = w - np.float32(1)  # the file holds the factor, transformers the offset from one
        state[target] = torch.from_numpy(np.ascontiguousarray(w))
    state.setdefault("lm_head.weight", state["model.embed_tokens.weight"])
    model.load_state_dict(state, strict=True)
    if "rope_freqs.weight" in g.tensors:
        model.model.rotary_emb.inv_freq /= torch.from_numpy(g.tensor("rope_freqs.weight"))
    return model


# The split pattern that Llama 3 and Qwen2 publish in their tokenizer.json; they differ in digits.
MODERN_PATTERN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|DIGITS|"
                  r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def bpe_tokenizer(g):
    """text, parse_special -> ids by Hugging Face's tokenizers, from the file's own tables."""
    from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers
    tokens = g.get("tokenizer.ggml.tokens")
    types = g.get("tokenizer.ggml.token_type")
    merges = [tuple(m.split(" ")) for m in g.get("tokenizer.ggml.merges")]
    pre = g.get("tokenizer.ggml.pre")
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    chains = {"smollm": [pre_tokenizers.Digits(individual_digits=True), byte_level],
              "gpt-2": [byte_level]}
    for name, digits in (("llama-bpe", r"\p{N}{1,3}"), ("qwen2", r"\p{N}")):
        pattern = Regex(MODERN_PATTERN.replace("DIGITS", digits))
        chains[name] = [pre_tokenizers.Split(pattern, "isolated"), raw_bytes]
    vocab = {t: i for i, t in enumerate(tokens)}

    def build(with_special):
        tok = Tokenizer(models.BPE(vocab=vocab, merges=merges, fuse_unk=False,
                                   ignore_merges=pre == "llama-bpe"))
        if pre == "qwen2":
            tok.normalizer = normalizers.NFC()
        tok.pre_tokenizer = pre_tokenizers.Sequence(chains[pre])
        if with_special:
            tok.add_special_tokens([AddedToken(t, normalized=False) for t, k in zip(tokens, types)
                                    if k == gguf.TokenType.CONTROL])
        return tok

    by_flag = {flag: build(flag) for flag in (False, True)}
    bos = [g.get("tokenizer.ggml.bos_token_id")] if g.get("tokenizer.ggml.add_bos_token") else []
    return lambda text, special: bos + by_flag[special].encode(text).ids


def varint(n):
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    return bytes(out + bytes([n]))


def proto(number, value):
    """One protobuf field: bytes, int or float."""
    if isinstance(value, bytes):
        return varint(number << 3 | 2) + varint(len(value)) + value
    if isinstance(value, float):
        return varint(number << 3 | 5) + np.float32(value).tobytes()
    return varint(number << 3) + varint(value)


def spm_tokenizer(g):
    """text, parse_special -> ids by Google's sentencepiece, its model rebuilt from the file's
    pieces, scores and types (the numbers of GGUF's token types are sentencepiece's own)."""
    import sentencepiece
    tokens = g.get("tokenizer.ggml.tokens")
    types = g.get("tokenizer.ggml.token_type")
    scores = g.get("tokenizer.ggml.scores")
    # The converter writes user-defined runs of blanks as blanks; sentencepiece escapes them.
    tokens = [t.replace(" ", "▁") if k == gguf.TokenType.USER_DEFINED else t
              for t, k in zip(tokens, types)]
    blob = b"".join(
        proto(1, proto(1, t.encode()) + proto(2, float(s)) + proto(3, int(k)))
        for t, s, k in zip(tokens, scores, types))
    blob += proto(2, proto(3, 2) + proto(35, 1))  # trainer: BPE, byte_fallback
    prefix = bool(g.get("tokenizer.ggml.add_space_prefix", True))
    blob += proto(3, proto(1, b"identity") + proto(3, int(prefix)) + proto(4, 0) + proto(5, 1))
    sp = sentencepiece.SentencePieceProcessor(model_proto=blob)
    control = {t: i for i, (t, k) in enumerate(zip(tokens, types)) if k == gguf.TokenType.CONTROL}
    bos = [g.get("tokenizer.ggml.bos_token_id")] if g.get("tokenizer.ggml.add_bos_token") else []

    def encode(text, special):
        if not special:
            return bos + sp.encode(text)
        ids, start, at = list(bos), 0, 0
        while at < len(text):  # longest control token at each place, the rest goes to the model
            hits = [t for t in control if text.startswith(t, at)]
            if not hits:
                at += 1
                continue
            best = max(hits, key=len)
            ids += sp.encode(text[start:at]) + [control[best]]
            at += len(best)
            start = at
        return ids + sp.encode(text[start:])

    return encode


def tokenizer_of(g):
    return spm_tokenizer(g) if g.get("tokenizer.ggml.model") == "llama" else bpe_tokenizer(g)


@torch.no_grad()
def logits_of(model, ids, keep=0):
    """Logits (keep or all, vocab) of the last positions by one uncached pass."""
    out = model(input_ids=torch.tensor([ids]), use_cache=False, logits_to_keep=keep)
    return out.logits[0]


@torch.no_grad()
def greedy(model, ids, count):
    """count argmax tokens after ids, by cached decode; the end-of-text token does not stop it."""
    out, feed, cache = [], ids, None
    for _ in range(count):
        step = model(input_ids=torch.tensor([feed]), cache=cache, use_cache=True, logits_to_keep=1)
        cache = step.cache if hasattr(step, "cache") else step.past_key_values
        feed = [int(step.logits[0, -1].argmax())]
        out += feed
    return out


def greedy_record(model, ids, count):
    """Greedy tokens, their top-2 gaps and the first logits, from one uncached pass over prompt
    and continuation: the cache only proposes, so a fault of it cannot enter the golden file."""
    tokens = greedy(model, ids, count)
    logits = logits_of(model, ids + tokens[:-1], count)
    top = logits.topk(2).values
    gaps = (top[:, 0] - top[:, 1]).numpy()
    for step, (a, b) in enumerate(zip(logits.argmax(-1).tolist(), tokens)):
        if a != b:
            raise SystemExit(f"cached and uncached passes part at step {step}: {a} and {b}, "
                             f"gap {gaps[step]:.3g}")
    return tokens, gaps, logits[0]


def prompt_record(model, encode, name, text, special):
    ids = encode(text, special)
    tokens, gaps, last = greedy_record(model, ids, GREEDY_TOKENS)
    top = last.topk(TOP_LAST)
    return {"name": name, "text": text, "parse_special": special, "ids": ids,
            "top_ids": top.indices.tolist(), "top_logits": significant(top.values, 9),
            "logsumexp": significant(last.double().logsumexp(0), 9),
            "greedy": tokens, "greedy_gaps": significant(gaps, 4)}


def passage_record(ids, logits):
    """Teacher-forced figures of logits (T, vocab); position t predicts ids[t + 1]."""
    lse = logits.double().logsumexp(-1)
    following = logits[:-1].gather(1, torch.tensor(ids[1:])[:, None])[:, 0].double()
    places = range(0, len(ids), PASSAGE_STRIDE)
    tops = [logits[p].topk(TOP_PASSAGE) for p in places]
    return {"file": "passage.txt", "ids": ids,
            "perplexity": significant(math.exp((lse[:-1] - following).mean()), 9),
            "next_logits": significant(following, 6), "logsumexp": significant(lse, 9),
            "top": [{"position": p, "ids": t.indices.tolist(), "logits": significant(t.values, 6)}
                    for p, t in zip(places, tops)]}


def coarse_kl(oracle, other):
    """KL over 65 outcomes: the oracle's top 64 tokens and one for all the rest (what a test can
    compute from this file; never above the KL over the whole vocabulary)."""
    log_p, log_q = oracle.double().log_softmax(-1), other.double().log_softmax(-1)
    top = oracle.topk(TOP_PASSAGE, dim=-1).indices
    p, q = log_p.gather(-1, top), log_q.gather(-1, top)
    rest_p = (1 - p.exp().sum(-1)).clamp_min(1e-300)
    rest_q = (1 - q.exp().sum(-1)).clamp_min(1e-300)
    return (p.exp() * (p - q)).sum(-1) + rest_p * (rest_p.log() - rest_q.log())


def kl(oracle, other):
    """KL(oracle || other) in nats per position."""
    parts = []
    for a, b in zip(oracle.split(64), other.split(64)):
        log_p, log_q = a.double().log_softmax(-1), b.double().log_softmax(-1)
        parts.append((log_p.exp() * (log_p - log_q)).sum(-1))
    return torch.cat(parts)


def run_peer(args, model, ids, texts=(), **options):
    """llama.cpp's logits (T, vocab) for ids, and its reply: version, tokens of the texts."""
    with tempfile.TemporaryDirectory() as folder:
        f = pathlib.Path(folder)
        job = {"model": str(model), "ids": ids, "texts": list(texts), "threads": THREADS,
               "n_ctx": max(512, len(ids) + 8), "options": options,
               "plain_buffers": args.peer_plain_buffers,
               "out": str(f / "logits.npy"), "reply": str(f / "reply.json")}
        (f / "job.json").write_text(json.dumps(job))
        subprocess.run([args.peer_python, "-c", PEER_SCRIPT, str(f / "job.json")], check=True)
        return (torch.from_numpy(np.load(f / "logits.npy")),
                json.loads((f / "reply.json").read_text()))


def peer_record(args, ids, oracle, peer, reply):
    each = kl(oracle, peer)
    coarse = coarse_kl(oracle[::PASSAGE_STRIDE], peer[::PASSAGE_STRIDE])
    same_top = (oracle.argmax(-1) == peer.argmax(-1)).double().mean()
    nll = (peer[:-1].double().logsumexp(-1)
           - peer[:-1].double().gather(1, torch.tensor(ids[1:])[:, None])[:, 0])
    return {"name": "llama.cpp by llama-cpp-python", "version": reply["version"],
            "settings": f"defaults, logits_all=True, {THREADS} threads"
                        + (", use_extra_bufts=False" if args.peer_plain_buffers else ""),
            "system": reply["system"].strip(),
            "mean_kl": significant(each.mean(), 6), "max_kl": significant(each.max(), 6),
            "median_kl": significant(each.median(), 6),
            "mean_kl_top64_every_8th": significant(coarse.mean(), 6),
            "same_top_share": significant(same_top, 6),
            "perplexity": significant(math.exp(nll.mean()), 9)}


def loader_difference(path, model, ids):
    """Largest logit difference to transformers' own GGUF loader, or what stopped it."""
    try:
        other = transformers.AutoModelForCausalLM.from_pretrained(
            str(path.parent), gguf_file=path.name, dtype=torch.float32,
            attn_implementation="eager").eval()
        return significant((logits_of(other, ids, 1) - logits_of(model, ids, 1)).abs().max(), 4)
    except Exception as e:  # the loader is only a second witness; its refusal is worth a line
        return f"not loaded: {type(e).__name__}: {str(e).splitlines()[0][:160]}"


def head_of(path, g):
    packages = ("torch", "transformers", "tokenizers", "sentencepiece", "gguf", "numpy")
    return {"format": "ridge-golden-1", "date": datetime.date.today().isoformat(),
            "versions": {p: importlib.metadata.version(p) for p in packages},
            "model": {"file": path.name, "bytes": path.stat().st_size, "arch": g.arch,
                      "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}}


def make(args):
    path = pathlib.Path(args.model)
    g = GgufFile(path)
    encode, model = tokenizer_of(g), load_model(g)
    passage = encode((DATA / "passage.txt").read_text("utf-8").rstrip("\n"), False)
    long_text = (DATA / "long_prompt.txt").read_text("utf-8").rstrip("\n")
    prompts = PROMPTS + [("long", long_text, False), ("chat", CHAT[g.arch], True)]
    records = [prompt_record(model, encode, *p) for p in prompts]
    oracle = logits_of(model, passage)
    golden = head_of(path, g)
    golden["oracle"] = {
        "route": "transformers classes, state filled by hand from gguf.quants.dequantize",
        "dtype": "float32", "attention": "eager", "threads": args.threads,
        "embedding_scale": "sqrt(width) in float32" if g.arch == "gemma3" else "none",
        "max_logit_difference_to_transformers_gguf_loader":
            loader_difference(path, model, passage[:64])}
    golden["prompts"], golden["passage"] = records, passage_record(passage, oracle)
    if args.full_out:
        np.save(args.full_out, oracle.numpy())
    peer, reply = run_peer(args, path, passage, [(t, s) for _, t, s in prompts])
    golden["peer"] = peer_record(args, passage, oracle, peer, reply)
    golden["peer_mean_kl"] = golden["peer"]["mean_kl"]
    golden["peer"]["prompts_tokenised_otherwise"] = [
        r["name"] for r, t in zip(records, reply["tokens"]) if r["ids"] != t]
    del peer
    model.double()  # matrix products in fp64: how much of each figure is fp32 rounding
    exact = logits_of(model, passage)
    golden["oracle"]["max_logit_difference_to_fp64_products"] = significant(
        (exact.float() - oracle).abs().max(), 4)
    for r in records:
        last = logits_of(model, r["ids"], 1)[0][torch.tensor(r["top_ids"])]
        r["fp64_products_max_difference"] = significant(
            (last - torch.tensor(r["top_logits"])).abs().max(), 4)
    out = pathlib.Path(args.out)
    out.write_text(json.dumps(golden, ensure_ascii=False, separators=(",", ":")) + "\n", "utf-8")
    print(json.dumps({k: golden[k] for k in ("oracle", "peer")}, indent=1))
    print([(r["name"], len(r["ids"]), min(r["greedy_gaps"])) for r in records],
          "passage", len(passage), golden["passage"]["perplexity"], out.stat().st_size, "bytes")


def peer_flags(flags):
    flags.add_argument("--peer-python", default=sys.executable,
                       help="interpreter that has llama_cpp (default: this one)")
    flags.add_argument("--peer-plain-buffers", action="store_true",
                       help="no repacked or AMX weights in llama.cpp (its AMX path crashes on "
                            "some virtual machines)")


def main():
    flags = argparse.ArgumentParser(description=__doc__)
    flags.add_argument("--model", required=True, help="GGUF file")
    flags.add_argument("--out", required=True, help="golden JSON to write")
    flags.add_argument("--full-out", help=".npy for all fp32 logits of the passage, (T, vocab)")
    peer_flags(flags)
    flags.add_argument("--threads", type=int, default=THREADS,
                       help="of the oracle; 1 on a busy machine, where threads wait for each other "
                            "more than they gain")
    args = flags.parse_args()
    torch.set_num_threads(args.threads)
    make(args)


if __name__ == "__main__":
    main()
