// Llama 1-3, SmolLM, Mistral, TinyLlama: pre-norm blocks, grouped heads, SwiGLU.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "program/arch/arch.h"
#include "program/arch/blocks.h"

namespace ridge {

void lower_llama(ProgramBuilder& b) {
  const ModelSpec& spec = b.spec();
  b.embed(1.0);
  for (int64_t layer = 0; layer < spec.n_layers; ++layer) {
    const std::string blk = block_prefix(layer);
    b.norm("attn_norm", blk + "attn_norm", Buffer::residual, Buffer::normed);
    project_qkv(b, blk);
    rotate_qk(b, spec.rope);
    b.attention(layer, 1 / std::sqrt(static_cast<double>(spec.head_dim)));
    b.add_matmul("attn_out", blk + "attn_output", Buffer::attended);

    b.norm("ffn_norm", blk + "ffn_norm", Buffer::residual, Buffer::normed);
    gated_ffn(b, blk, GateFunction::silu);
    b.add_matmul("ffn_down", blk + "ffn_down", Buffer::up);
  }
  b.finish();
}

}  // namespace ridge
