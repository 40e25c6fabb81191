// The layout of one KV block: what one layer and one KV head keep of one page of tokens. Keys are
// stored transposed, so that scores of consecutive tokens are one vector and need no horizontal
// sum:
//   K (head_dim, kKvPageTokens), then V (kKvPageTokens, head_dim), both in the cache's dtype.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tensor/dtype.h"

namespace ridge {

// Tokens of one page of the KV cache.
inline constexpr int64_t kKvPageTokens = 64;

inline int64_t kv_block_bytes(DType kv_dtype, int64_t head_dim) {
  return 2 * bytes_of(kv_dtype, kKvPageTokens * head_dim);
}

}  // namespace ridge
