#!/usr/bin/env python3
# Makes the tiny random models of tests/data/tiny and their golden files: one GGUF per architecture
# and RoPE kind, written as llama.cpp's converter writes it. The oracle is transformers' own class
# holding the numbers AFTER quantising, so oracle and file agree to the last bit of every weight.
# SPDX-License-Identifier: Apache-2.0
"""See tools/README.md for how to run this and for the fields of the output."""

import argparse
import json
import math
import pathlib
import re
import tempfile

import gguf
import numpy as np
import torch
import transformers
from gguf import GGMLQuantizationType as Q
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

import make_golden as golden

IDS = 43
GREEDY_TOKENS = 16
MIN_GREEDY_GAP = 0.03  # logits; far above fp32 rounding (1e-5), so greedy text is a fair test
CASES = ["Call me Ishmael.", "  two  spaces\n\n\nand\ttabs ", "I'll pay 12345.67, won't I?",
         "naïve 日本語 🍕", " ", "\n", "x<|endoftext|>y"]
CYCLES = {  # weight types, dealt to the matrices in turn; a row that they do not divide gets F16
    "plain": [Q.Q8_0, Q.Q4_0, Q.F16, Q.Q8_0, Q.BF16, Q.Q4_0, Q.Q8_0],
    "light": [Q.Q8_0, Q.Q4_0, Q.Q8_0, Q.Q5_0, Q.F16, Q.Q4_0],
    "legacy": [Q.Q5_1, Q.Q4_1, Q.Q5_0, Q.Q8_0, Q.Q4_0],
    "k": [Q.Q6_K, Q.Q4_K, Q.Q5_K, Q.Q6_K, Q.Q5_0, Q.Q2_K, Q.Q3_K, Q.Q4_K],
    "f16": [Q.F16, Q.F16, Q.F32, Q.BF16, Q.F16, Q.F16, Q.BF16],
}
# No two of width, q width, k width, ffn, vocabulary, layers and heads are equal (but where the
# architecture ties the q width to the width).
MODELS = {
    "llama": dict(arch="llama", width=96, heads=4, kv=2, head=40, ffn=160, layers=3, vocab=307,
                  cycle="plain", pre="smollm"),
    "llama-linear": dict(arch="llama", width=128, heads=4, kv=1, head=32, ffn=224, layers=2,
                         vocab=311, cycle="legacy", pre="gpt-2", tied=True,
                         rope=dict(rope_type="linear", factor=4.0)),
    "llama-llama3": dict(arch="llama", width=64, heads=8, kv=4, head=24, ffn=80, layers=2,
                         vocab=313, cycle="f16", pre="llama-bpe", bos=True, theta=500000.0,
                         rope=dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0,
                                   high_freq_factor=4.0, original_max_position_embeddings=64)),
    "llama-k": dict(arch="llama", width=256, heads=4, kv=2, head=40, ffn=512, layers=1, vocab=317,
                    cycle="k", pre="gpt-2", tied=True),
    "qwen2": dict(arch="qwen2", width=160, heads=5, kv=1, head=32, ffn=96, layers=2, vocab=331,
                  cycle="plain", pre="qwen2", theta=1000000.0),
    "qwen3": dict(arch="qwen3", width=96, heads=4, kv=2, head=56, ffn=160, layers=3, vocab=337,
                  cycle="legacy", pre="qwen2", tied=True, theta=1000000.0),
    "gemma3": dict(arch="gemma3", width=64, heads=4, kv=2, head=40, ffn=96, layers=7, vocab=347,
                   cycle="light", tied=True, theta=1000000.0, window=8),
    "gemma3-scaled": dict(arch="gemma3", width=32, heads=4, kv=1, head=24, ffn=64, layers=7,
                          vocab=353, cycle="f16", tied=True, theta=1000000.0, window=5,
                          rope=dict(rope_type="linear", factor=8.0)),
}


def config_of(m):
    theta = m.get("theta", 10000.0)
    rope = {"rope_type": "default", "rope_theta": theta} | m.get("rope", {})
    common = dict(vocab_size=m["vocab"], hidden_size=m["width"], intermediate_size=m["ffn"],
                  num_hidden_layers=m["layers"], num_attention_heads=m["heads"],
                  num_key_value_heads=m["kv"], head_dim=m["head"], rms_norm_eps=1e-5,
                  max_position_embeddings=512, pad_token_id=None, rope_parameters=rope,
                  tie_word_embeddings=m.get("tied", False))
    if m["arch"] == "gemma3":
        common["rope_parameters"] = {
            "full_attention": rope,
            "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}}
        return transformers.Gemma3TextConfig(**common, sliding_window=m["window"],
                                             query_pre_attn_scalar=m["head"])
    kinds = {"llama": transformers.LlamaConfig, "qwen2": transformers.Qwen2Config,
             "qwen3": transformers.Qwen3Config}
    return kinds[m["arch"]](**common)


def tensor_names(m):
    """GGUF names in the converter's order."""
    kinds = ["attn_norm.weight", "attn_q.weight", "attn_k.weight", "attn_v.weight",
             "attn_output.weight", "ffn_norm.weight", "ffn_gate.weight", "ffn_up.weight",
             "ffn_down.weight"]
    if m["arch"] == "qwen2":
        kinds += ["attn_q.bias", "attn_k.bias", "attn_v.bias"]
    if m["arch"] in ("qwen3", "gemma3"):
        kinds += ["attn_q_norm.weight", "attn_k_norm.weight"]
    if m["arch"] == "gemma3":
        kinds += ["post_attention_norm.weight", "post_ffw_norm.weight"]
    layers = [f"blk.{i}.{k}" for i in range(m["layers"]) for k in kinds]
    head = [] if m.get("tied") else ["output.weight"]
    return ["token_embd.weight"] + layers + ["output_norm.weight"] + head


def random_weight(name, shape, tied, rng):
    """Scales that keep logits near std 1.5 to 2 and attention peaked, so that positions matter."""
    noise = rng.standard_normal(shape)
    if name.endswith("bias"):
        return 0.5 * noise
    if "_q_norm" in name or "_k_norm" in name:
        return 1.5 + 0.3 * noise
    if "post_" in name:
        return 2.5 + 0.5 * noise  # the layers must outweigh the embedding, or greedy text repeats
    if "norm" in name:
        return np.maximum(0.2, 1 + 0.25 * noise)
    gain = {"attn_q": 1.6, "attn_k": 1.6, "ffn_down": 1.5, "output": 2.0}
    kind = name.split(".")[-2]
    if kind == "token_embd":
        return noise * (1.5 / math.sqrt(shape[1]) if tied else 1.0)
    return noise * gain.get(kind, 1.0) / math.sqrt(shape[1])


def random_k_blocks(kind, shape, std, rng):
    """Raw K-quant bytes of random fields with the given std: the gguf package only reads them."""
    block, size = gguf.GGML_QUANT_SIZES[kind]
    raw = rng.integers(0, 256, (shape[0], shape[1] // block, size), dtype=np.uint8)
    # Byte offsets of d and dmin, and dmin/d for a mean of zero: mean(scale * q) / mean(min).
    places = {Q.Q2_K: (80, 82, 1.5), Q.Q3_K: (108, None, 0), Q.Q4_K: (0, 2, 7.5),
              Q.Q5_K: (0, 2, 15.5), Q.Q6_K: (208, None, 0)}
    d_at, min_at, ratio = places[kind]
    spread = rng.uniform(0.7, 1.3, raw.shape[:2])

    def fill(d):
        raw[..., d_at:d_at + 2] = (d * spread).astype(np.float16)[..., None].view(np.uint8)
        if min_at is not None:
            mins = (d * ratio * spread).astype(np.float16)
            raw[..., min_at:min_at + 2] = mins[..., None].view(np.uint8)
        return raw.reshape(shape[0], -1)

    return fill(std / gguf.quants.dequantize(fill(1.0), kind).std()).copy()


def stored_form(name, w, kind, rng):
    """(data, type, fp32 numbers that data means) for a tensor of a file."""
    if w.ndim == 1:
        kind = Q.F32
    elif w.shape[1] % gguf.GGML_QUANT_SIZES[kind][0]:
        kind = Q.F16
    if kind.name.endswith("_K"):
        data = random_k_blocks(kind, w.shape, float(w.std()), rng)
    else:
        data = gguf.quants.quantize(w.astype(np.float32), kind)
    return data, kind, np.array(gguf.quants.dequantize(data, kind), np.float32).reshape(w.shape)


def build(m, seed):
    """A random model: the transformers model, and its GGUF tensors as name -> (data, type)."""
    rng = np.random.default_rng(seed)
    config = config_of(m)
    config._attn_implementation = "eager"
    model = getattr(transformers, golden.MODEL_CLASSES[m["arch"]])(config).float().eval()
    shapes = {k: tuple(v.shape) for k, v in model.state_dict().items()}
    cycle, dealt, tensors, state = CYCLES[m["cycle"]], 0, {}, {}
    for name in tensor_names(m):
        target = golden.hf_name(m["arch"], name)
        w = random_weight(name, shapes[target], m.get("tied"), rng)
        data, kind, numbers = stored_form(name, w, cycle[dealt % len(cycle)], rng)
        dealt += w.ndim == 2
        tensors[name] = (data, kind, numbers)
        if m["arch"] == "llama" and re.search(r"attn_[qk]\.", name):
            heads = m["heads"] if "attn_q" in name else m["kv"]
            numbers = golden.uninterleave(numbers, heads)
        if m["arch"] == "gemma3" and name.endswith("norm.weight"):
            numbers = numbers - np.float32(1)
        state[target] = torch.from_numpy(np.ascontiguousarray(numbers))
    state.setdefault("lm_head.weight", state["model.embed_tokens.weight"])
    model.load_state_dict(state, strict=True)
    if m.get("rope", {}).get("rope_type") == "llama3":
        factors = llama3_factors(m)
        tensors["rope_freqs.weight"] = (factors, Q.F32, factors)
    return model, tensors


def llama3_factors(m):
    """The divisors of the RoPE frequencies that the converter stores as rope_freqs.weight."""
    r, out = m["rope"], []
    low = r["original_max_position_embeddings"] / r["low_freq_factor"]
    high = r["original_max_position_embeddings"] / r["high_freq_factor"]
    for i in range(m["head"] // 2):
        wavelength = 2 * math.pi * m["theta"] ** (2 * i / m["head"])
        if wavelength < high:
            out.append(1.0)
        elif wavelength > low:
            out.append(r["factor"])
        else:
            smooth = ((r["original_max_position_embeddings"] / wavelength - r["low_freq_factor"])
                      / (r["high_freq_factor"] - r["low_freq_factor"]))
            out.append(1 / ((1 - smooth) / r["factor"] + smooth))
    return np.array(out, np.float32)


def train_merges(count):
    """That many byte-level BPE merges learnt from the passage, as pairs of strings."""
    tok = Tokenizer(models.BPE())
    tok.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(vocab_size=256 + count, initial_alphabet=alphabet,
                                  show_progress=False)
    tok.train_from_iterator([(golden.DATA / "passage.txt").read_text("utf-8")], trainer)
    merges = json.loads(tok.to_str())["model"]["merges"]
    return alphabet, [tuple(p) for p in merges[:count]]


def add_bpe(w, m):
    alphabet, merges = train_merges(40)
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    tokens = special + alphabet + [a + b for a, b in merges]
    types = [gguf.TokenType.CONTROL] * 3 + [gguf.TokenType.NORMAL] * (len(tokens) - 3)
    for i in range(len(tokens), m["vocab"]):
        tokens.append(f"[PAD{i}]")
        types.append(gguf.TokenType.UNUSED)
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre(m["pre"])
    w.add_token_list(tokens)
    w.add_token_types(types)
    w.add_token_merges([" ".join(p) for p in merges])
    w.add_bos_token_id(1)
    w.add_eos_token_id(2)
    w.add_add_bos_token(m.get("bos", False))


def add_spm(w, m):
    alphabet, merges = train_merges(40)
    rows = [("<pad>", 0.0, gguf.TokenType.CONTROL), ("<eos>", 0.0, gguf.TokenType.CONTROL),
            ("<bos>", 0.0, gguf.TokenType.CONTROL), ("<unk>", 0.0, gguf.TokenType.UNKNOWN),
            ("\n\n", 0.0, gguf.TokenType.USER_DEFINED),
            ("  ", 0.0, gguf.TokenType.USER_DEFINED)]  # blanks, as the converter writes it
    rows += [(f"<0x{b:02X}>", 0.0, gguf.TokenType.BYTE) for b in range(256)]
    pieces = [(a + b).replace("Ġ", "▁") for a, b in merges]
    pieces = [p for p in pieces if re.fullmatch("▁?[A-Za-z,.]+", p)]
    rows += [(p, -float(i), gguf.TokenType.NORMAL) for i, p in enumerate(pieces)]
    letters = sorted(set("▁" + "".join(pieces)) | set("\nxyé日"))
    rows += [(c, -1000.0 - i, gguf.TokenType.NORMAL) for i, c in enumerate(letters)]
    if len(rows) > m["vocab"]:
        raise SystemExit(f"{len(rows)} pieces do not fit a vocabulary of {m['vocab']}")
    rows += [(f"<unused{i}>", 0.0, gguf.TokenType.UNUSED) for i in range(len(rows), m["vocab"])]
    tokens, scores, types = zip(*rows)
    w.add_tokenizer_model("llama")
    w.add_tokenizer_pre("default")
    w.add_token_list(tokens)
    w.add_token_scores(scores)
    w.add_token_types(types)
    w.add_bos_token_id(2)
    w.add_eos_token_id(1)
    w.add_unk_token_id(3)
    w.add_pad_token_id(0)
    w.add_add_bos_token(True)
    w.add_add_eos_token(False)
    w.add_add_space_prefix(False)


def write_gguf(path, name, m, tensors, widen=False):
    """The file; with widen every tensor as F32 (for a peer without quantised activations)."""
    w = gguf.GGUFWriter(str(path), m["arch"])
    w.add_type(gguf.GGUFType.MODEL)
    w.add_name(f"ridge tiny random {name}")
    w.add_context_length(512)
    w.add_embedding_length(m["width"])
    w.add_block_count(m["layers"])
    w.add_feed_forward_length(m["ffn"])
    w.add_head_count(m["heads"])
    w.add_head_count_kv(m["kv"])
    w.add_rope_freq_base(m.get("theta", 10000.0))
    w.add_layer_norm_rms_eps(1e-5)
    if m["head"] * m["heads"] != m["width"]:
        w.add_key_length(m["head"])
        w.add_value_length(m["head"])
    if m["arch"] == "llama":
        w.add_vocab_size(m["vocab"])
        w.add_rope_dimension_count(m["head"])
    if m["arch"] == "gemma3":
        w.add_sliding_window(m["window"])
    if m.get("rope", {}).get("rope_type") == "linear":
        w.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        w.add_rope_scaling_factor(m["rope"]["factor"])
    w.add_quantization_version(2)
    (add_spm if m["arch"] == "gemma3" else add_bpe)(w, m)
    for tensor, (data, kind, numbers) in tensors.items():
        w.add_tensor(tensor, numbers if widen else data, raw_dtype=Q.F32 if widen else kind)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


@torch.no_grad()
def sensitivity(m, seed, ids, last):
    """Largest change of a last-position logit if one detail of the architecture is got wrong:
    what a test's tolerance must stay well below."""
    out = {}

    def tried(label, spoil):
        model = build(m, seed)[0]
        spoil(model)
        out[label] = golden.significant((golden.logits_of(model, ids, 1)[0] - last).abs().max(), 3)

    def wrong_pairs(model):
        for name, w in model.state_dict().items():
            if re.search(r"\.[qk]_proj\.", name):
                heads = m["heads"] if "q_proj" in name else m["kv"]
                w.copy_(torch.from_numpy(golden.interleave(w.numpy().copy(), heads)))

    def plain_rope(model):
        rope = model.model.rotary_emb
        kind = "full_attention_inv_freq" if m["arch"] == "gemma3" else "inv_freq"
        steps = torch.arange(0, m["head"], 2, dtype=torch.float32) / m["head"]
        getattr(rope, kind).copy_(1 / m.get("theta", 10000.0) ** steps)

    def no_bias(model):
        for name, w in model.state_dict().items():
            if name.endswith("bias"):
                w.zero_()

    def one_base(model):
        rope = model.model.rotary_emb
        rope.sliding_attention_inv_freq.copy_(rope.full_attention_inv_freq)

    tried("rope_pairs_swapped", wrong_pairs)
    if "rope" in m:
        tried("rope_scaling_ignored", plain_rope)
    if m["arch"] == "qwen2":
        tried("qkv_bias_ignored", no_bias)
    if m["arch"] == "gemma3":
        tried("local_rope_base_ignored", one_base)
        for label, window in (("window_ignored", 4096), ("window_one_longer", m["window"] + 1)):
            tried(label, lambda model, w=window: setattr(model.config, "sliding_window", w))
    return out


def pick(m):
    """The first seed whose greedy text is varied and free of near-ties."""
    for seed in range(1, 60):
        model, tensors = build(m, seed)
        rng = np.random.default_rng(1000 + seed)
        ids = rng.integers(3, 300, IDS).tolist()
        if m["arch"] == "gemma3" or m.get("bos"):
            ids[0] = 2 if m["arch"] == "gemma3" else 1
        tokens, gaps, _ = golden.greedy_record(model, ids, GREEDY_TOKENS)
        if min(gaps) >= MIN_GREEDY_GAP and len(set(tokens)) >= 8:
            return seed, model, tensors, ids, tokens, gaps
    raise SystemExit("no seed gives a clear greedy text: widen the logits")


def against_peer(args, path, wide, ids, oracle, cases):
    """llama.cpp beside the oracle: strictly (all F32, F32 cache) and as it runs by default."""
    strict, _ = golden.run_peer(args, wide, ids, type_k=0, type_v=0)
    usual, reply = golden.run_peer(args, path, ids, [(c["text"], False) for c in cases])
    return {"name": "llama.cpp by llama-cpp-python", "version": reply["version"],
            "f32_max_logit_difference": golden.significant((strict - oracle).abs().max(), 4),
            "f32_same_argmax": bool((strict.argmax(-1) == oracle.argmax(-1)).all()),
            "default_max_logit_difference": golden.significant((usual - oracle).abs().max(), 4),
            "default_mean_kl": golden.significant(golden.kl(oracle, usual).mean(), 4),
            "texts_tokenised_otherwise": [c["text"] for c, t in zip(cases, reply["tokens"])
                                          if c["ids"] != t]}


def make(args, name):
    m = MODELS[name]
    folder = pathlib.Path(args.out)
    path = folder / f"{name}.gguf"
    seed, model, tensors, ids, tokens, gaps = pick(m)
    write_gguf(path, name, m, tensors)
    oracle = golden.logits_of(model, ids)
    g = golden.GgufFile(path)
    reread = golden.logits_of(golden.load_model(g), ids)
    encode = golden.tokenizer_of(g)
    cases = [{"text": t, "ids": encode(t, False)} for t in CASES]
    top = oracle.topk(2).values
    record = golden.head_of(path, g) | {
        "seed": seed, "ids": ids, "argmax": oracle.argmax(-1).tolist(),
        "argmax_gaps": golden.significant(top[:, 0] - top[:, 1], 4),
        "logsumexp": golden.significant(oracle.double().logsumexp(-1), 9),
        "last_logits": golden.significant(oracle[-1], 9),
        "logits_std": golden.significant(oracle.std(), 4),
        "greedy": tokens, "greedy_gaps": golden.significant(gaps, 4),
        "tokenizer_cases": cases, "sensitivity": sensitivity(m, seed, ids, oracle[-1])}
    with tempfile.TemporaryDirectory() as wide:
        wide_path = pathlib.Path(wide) / "wide.gguf"
        write_gguf(wide_path, name, m, tensors, widen=True)
        record["peer"] = against_peer(args, path, wide_path, ids, oracle, cases)
    exact = golden.logits_of(model.double(), ids)
    record["oracle"] = {
        "route": "transformers class with the file's numbers", "dtype": "float32",
        "max_logit_difference_to_model_reread_from_gguf":
            golden.significant((reread - oracle).abs().max(), 4),
        "max_logit_difference_to_fp64_products":
            golden.significant((exact.float() - oracle).abs().max(), 4)}
    text = json.dumps(record, ensure_ascii=False, separators=(",", ":"))
    (folder / f"{name}.json").write_text(text + "\n", "utf-8")
    print(name, path.stat().st_size, "bytes, seed", seed, "gap", min(record["greedy_gaps"]),
          {k: record[k] for k in ("logits_std", "oracle", "peer", "sensitivity")}, flush=True)


def main():
    flags = argparse.ArgumentParser(description=__doc__)
    flags.add_argument("--out", required=True, help="folder for the .gguf and .json files")
    flags.add_argument("--only", choices=MODELS, help="make this model alone")
    golden.peer_flags(flags)
    args = flags.parse_args()
    torch.set_num_threads(golden.THREADS)
    for name in [args.only] if args.only else MODELS:
        make(args, name)


if __name__ == "__main__":
    main()
