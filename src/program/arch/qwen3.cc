// Qwen3 dense: llama with each head of q and k normed before RoPE; head_dim is a number of its own.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "program/arch/arch.h"

namespace ridge {

void lower_qwen3(ProgramBuilder& b) {
  const ModelSpec& spec = b.spec();
  b.embed(1.0);
  for (int64_t layer = 0; layer < spec.n_layers; ++layer) {
    const std::string blk = "blk." + std::to_string(layer) + ".";
    b.norm("attn_norm", blk + "attn_norm", Buffer::residual, Buffer::normed);
    b.matmul("qkv", blk + "attn_q", b.q_width(), Buffer::normed, Buffer::q);
    b.matmul("qkv", blk + "attn_k", b.kv_width(), Buffer::normed, Buffer::k);
    b.matmul("qkv", blk + "attn_v", b.kv_width(), Buffer::normed, Buffer::v);
    b.head_norm("qk_norm", blk + "attn_q_norm", Buffer::q, b.heads());
    b.head_norm("qk_norm", blk + "attn_k_norm", Buffer::k, b.kv_heads());
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
