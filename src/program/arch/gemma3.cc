// Gemma 3 (text): embeddings scaled by sqrt(d_model), normed q and k, a norm before and after each
// block, five sliding-window layers with a RoPE base of their own for each full one, GeGLU.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "program/arch/arch.h"

namespace ridge {

namespace {

// query_pre_attn_scalar of the published configs (google/gemma-3-*, 2025-03): head_dim, but in the
// 27B model (the only one of 62 layers) d_model / n_heads. GGUF does not carry it.
double query_scalar(const ModelSpec& spec) {
  constexpr int64_t kLayersOf27B = 62;
  return static_cast<double>(spec.n_layers == kLayersOf27B ? spec.d_model / spec.n_heads
                                                           : spec.head_dim);
}

}  // namespace

void lower_gemma3(ProgramBuilder& b) {
  const ModelSpec& spec = b.spec();
  b.embed(std::sqrt(static_cast<double>(spec.d_model)));
  for (int64_t layer = 0; layer < spec.n_layers; ++layer) {
    const std::string blk = "blk." + std::to_string(layer) + ".";
    const RopeSpec& rope = spec.is_windowed(layer) ? spec.rope_local : spec.rope;
    b.norm("attn_norm", blk + "attn_norm", Buffer::residual, Buffer::normed);
    b.matmul("qkv", blk + "attn_q", b.q_width(), Buffer::normed, Buffer::q);
    b.matmul("qkv", blk + "attn_k", b.kv_width(), Buffer::normed, Buffer::k);
    b.matmul("qkv", blk + "attn_v", b.kv_width(), Buffer::normed, Buffer::v);
    b.head_norm("qk_norm", blk + "attn_q_norm", Buffer::q, b.heads());
    b.head_norm("qk_norm", blk + "attn_k_norm", Buffer::k, b.kv_heads());
    b.rope(rope, Buffer::q, b.heads());
    b.rope(rope, Buffer::k, b.kv_heads());
    b.attention(layer, 1 / std::sqrt(query_scalar(spec)));
    b.matmul("attn_out", blk + "attn_output", spec.d_model, Buffer::attended, Buffer::branch);
    b.all_reduce(Buffer::branch);
    b.add_norm("post_norm", blk + "post_attention_norm", Buffer::branch, Buffer::residual);

    b.norm("ffn_norm", blk + "ffn_norm", Buffer::residual, Buffer::normed);
    b.matmul("ffn_up", blk + "ffn_gate", b.ffn_width(), Buffer::normed, Buffer::gate);
    b.matmul("ffn_up", blk + "ffn_up", b.ffn_width(), Buffer::normed, Buffer::up);
    b.gated_act(GateFunction::gelu_tanh);
    b.matmul("ffn_down", blk + "ffn_down", spec.d_model, Buffer::up, Buffer::branch);
    b.all_reduce(Buffer::branch);
    b.add_norm("post_norm", blk + "post_ffw_norm", Buffer::branch, Buffer::residual);
  }
  b.finish();
}

}  // namespace ridge
