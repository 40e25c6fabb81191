// Gemma 3 (text): embeddings scaled by sqrt(d_model), normed q and k, a norm before and after each
// block, five sliding-window layers with a RoPE base of their own for each full one, GeGLU.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "program/arch/arch.h"
#include "program/arch/blocks.h"

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
    const std::string blk = block_prefix(layer);
    b.norm("attn_norm", blk + "attn_norm", Buffer::residual, Buffer::normed);
    project_qkv(b, blk);
    norm_qk(b, blk);
    rotate_qk(b, spec.is_windowed(layer) ? spec.rope_local : spec.rope);
    b.attention(layer, 1 / std::sqrt(query_scalar(spec)));
    b.branch_matmul("attn_out", blk + "attn_output", Buffer::attended);
    b.add_norm("post_norm", blk + "post_attention_norm", Buffer::branch, Buffer::residual);

    b.norm("ffn_norm", blk + "ffn_norm", Buffer::residual, Buffer::normed);
    gated_ffn(b, blk, GateFunction::gelu_tanh);
    b.branch_matmul("ffn_down", blk + "ffn_down", Buffer::up);
    b.add_norm("post_norm", blk + "post_ffw_norm", Buffer::branch, Buffer::residual);
  }
  b.finish();
}

}  // namespace ridge
