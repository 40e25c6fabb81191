// Qwen2 and Qwen2.5 dense: llama with a bias on q, k and v.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "program/arch/arch.h"

namespace ridge {

void lower_qwen2(ProgramBuilder& b) {
  const ModelSpec& spec = b.spec();
  b.embed(1.0);
  for (int64_t layer = 0; layer < spec.n_layers; ++layer) {
    const std::string blk = "blk." + std::to_string(layer) + ".";
    b.norm("attn_norm", blk + "attn_norm", Buffer::residual, Buffer::normed);
    b.matmul("qkv", blk + "attn_q", b.q_width(), Buffer::normed, Buffer::q, spec.qkv_bias);
    b.matmul("qkv", blk + "attn_k", b.kv_width(), Buffer::normed, Buffer::k, spec.qkv_bias);
    b.matmul("qkv", blk + "attn_v", b.kv_width(), Buffer::normed, Buffer::v, spec.qkv_bias);
    b.rope(spec.rope, Buffer::q, b.heads());
    b.rope(spec.rope, Buffer::k, b.kv_heads());
    b.attention(layer, 1 / std::sqrt(static_cast<double>(spec.head_dim)));
    b.add_matmul("attn_out", blk + "attn_output", spec.d_model, Buffer::attended, Buffer::residual);
    b.all_reduce(Buffer::residual);

    b.norm("ffn_norm", blk + "ffn_norm", Buffer::residual, Buffer::normed);
    b.matmul("ffn_up", blk + "ffn_gate", b.ffn_width(), Buffer::normed, Buffer::gate);
    b.matmul("ffn_up", blk + "ffn_up", b.ffn_width(), Buffer::normed, Buffer::up);
    b.gated_act(GateFunction::silu);
    b.add_matmul("ffn_down", blk + "ffn_down", spec.d_model, Buffer::up, Buffer::residual);
    b.all_reduce(Buffer::residual);
  }
  b.finish();
}

}  // namespace ridge
