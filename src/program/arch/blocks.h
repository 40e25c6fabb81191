// The parts of a block that several architectures share word for word.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "program/builder.h"

namespace ridge {

// normed -> q, k, v
inline void project_qkv(ProgramBuilder& b, const std::string& blk, bool has_bias = false) {
  b.matmul("qkv", blk + "attn_q", b.q_width(), Buffer::normed, Buffer::q, has_bias);
  b.matmul("qkv", blk + "attn_k", b.kv_width(), Buffer::normed, Buffer::k, has_bias);
  b.matmul("qkv", blk + "attn_v", b.kv_width(), Buffer::normed, Buffer::v, has_bias);
}

// Each head of q and k, normed by itself.
inline void norm_qk(ProgramBuilder& b, const std::string& blk) {
  b.head_norm("qk_norm", blk + "attn_q_norm", Buffer::q, b.heads());
  b.head_norm("qk_norm", blk + "attn_k_norm", Buffer::k, b.kv_heads());
}

inline void rotate_qk(ProgramBuilder& b, const RopeSpec& rope) {
  b.rope(rope, Buffer::q, b.heads());
  b.rope(rope, Buffer::k, b.kv_heads());
}

// normed -> up = act(gate) * up
inline void gated_ffn(ProgramBuilder& b, const std::string& blk, GateFunction function) {
  b.matmul("ffn_up", blk + "ffn_gate", b.ffn_width(), Buffer::normed, Buffer::gate);
  b.matmul("ffn_up", blk + "ffn_up", b.ffn_width(), Buffer::normed, Buffer::up);
  b.gated_act(function);
}

inline std::string block_prefix(int64_t layer) { return "blk." + std::to_string(layer) + "."; }

}  // namespace ridge
