// Small models for tests that cross rooms. Invariant: within a spec no two dimensions are equal, so
// that a width taken for another cannot pass unseen; every_dimension lists what must differ.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/spec.h"

namespace ridge {

// Widths are multiples of 32 where a quantised row must fill whole blocks.
inline ModelSpec toy_llama() {
  ModelSpec spec{.name = "toy llama", .architecture = Architecture::llama};
  spec.n_layers = 3, spec.d_model = 96, spec.n_heads = 6, spec.n_kv_heads = 2, spec.head_dim = 32;
  spec.d_ff = 128, spec.vocab_size = 160, spec.context_length = 50;
  spec.rope = {.pairing = RopePairing::adjacent, .dims = 24, .scaling = RopeScaling::llama3};
  spec.has_rope_freqs = true;
  return spec;
}

inline ModelSpec toy_qwen2() {
  ModelSpec spec{.name = "toy qwen2", .architecture = Architecture::qwen2};
  spec.n_layers = 3, spec.d_model = 160, spec.n_heads = 4, spec.n_kv_heads = 2, spec.head_dim = 32;
  spec.d_ff = 96, spec.vocab_size = 137, spec.context_length = 50;
  spec.qkv_bias = true, spec.tied_embedding = true;
  spec.rope = {.pairing = RopePairing::half_split, .dims = 28};
  return spec;
}

inline ModelSpec toy_qwen3() {
  ModelSpec spec{.name = "toy qwen3", .architecture = Architecture::qwen3};
  spec.n_layers = 2, spec.d_model = 64, spec.n_heads = 9, spec.n_kv_heads = 3, spec.head_dim = 32;
  spec.d_ff = 160, spec.vocab_size = 131, spec.context_length = 50;
  spec.rope = {.pairing = RopePairing::half_split, .dims = 30};
  return spec;
}

// Layers 0, 1 and 3 are windowed, the window is short enough to cut the toy batches.
inline ModelSpec toy_gemma3() {
  ModelSpec spec{.name = "toy gemma3", .architecture = Architecture::gemma3};
  spec.n_layers = 4, spec.d_model = 96, spec.n_heads = 6, spec.n_kv_heads = 2, spec.head_dim = 32;
  spec.d_ff = 224, spec.vocab_size = 149, spec.context_length = 50;
  spec.tied_embedding = true;
  spec.rope = {.pairing = RopePairing::half_split, .dims = 22, .base = 1e6};
  spec.rope_local = {.pairing = RopePairing::half_split, .dims = 26};
  spec.sliding_window = 5, spec.windowed = {true, true, false, true};
  return spec;
}

// One model whose rows fill the 256-element blocks of the K formats.
inline ModelSpec toy_wide_llama() {
  ModelSpec spec{.name = "toy wide llama", .architecture = Architecture::llama};
  spec.n_layers = 1, spec.d_model = 256, spec.n_heads = 8, spec.n_kv_heads = 2, spec.head_dim = 64;
  spec.d_ff = 768, spec.vocab_size = 139, spec.context_length = 50;
  spec.rope = {.pairing = RopePairing::adjacent, .dims = 60};
  return spec;
}

inline std::vector<ModelSpec> toy_specs() {
  return {toy_llama(), toy_qwen2(), toy_qwen3(), toy_gemma3()};
}

inline std::vector<int64_t> every_dimension(const ModelSpec& s) {
  std::vector<int64_t> dimensions{s.n_layers,
                                  s.d_model,
                                  s.n_heads,
                                  s.n_kv_heads,
                                  s.head_dim,
                                  s.d_ff,
                                  s.vocab_size,
                                  s.context_length,
                                  s.rope.dims,
                                  s.rope.dims / 2,
                                  s.n_heads * s.head_dim,
                                  s.n_kv_heads * s.head_dim};
  if (s.sliding_window > 0) {
    dimensions.push_back(s.sliding_window);
    dimensions.push_back(s.rope_local.dims);
  }
  return dimensions;
}

}  // namespace ridge
