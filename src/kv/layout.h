// How many bytes a cached token takes: the one formula that the pool allocates with and work_of
// counts with.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "model/spec.h"
#include "tensor/kv_block.h"

namespace ridge {

// Keys and values of one token in one layer.
inline int64_t kv_bytes_per_token_and_layer(DType kv_dtype, int64_t n_kv_heads, int64_t head_dim) {
  return n_kv_heads * kv_block_bytes(kv_dtype, head_dim) / kKvPageTokens;
}

inline int64_t kv_bytes_per_token(const ModelSpec& spec) {
  return spec.n_layers *
         kv_bytes_per_token_and_layer(spec.kv_dtype, spec.n_kv_heads, spec.head_dim);
}

inline int64_t kv_pages_for(int64_t tokens) { return (tokens + kKvPageTokens - 1) / kKvPageTokens; }

inline int64_t kv_page_bytes(const ModelSpec& spec) {
  return kKvPageTokens * kv_bytes_per_token(spec);
}

}  // namespace ridge
