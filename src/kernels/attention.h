// Softmax attention over a paged KV cache. Masks come from absolute positions: the query at
// position p sees keys at <= p and, with a window w, > p - w. The KV range is cut at fixed absolute
// positions (kAttentionSplitTokens); pieces are merged in order by (max, sum, output): the result
// depends on neither threads, nor prefill chunks, nor who computed which piece. Heads of one group
// read the cache once.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/cpu_info.h"
#include "tensor/kv_block.h"

namespace ridge {

inline constexpr int64_t kAttentionSplitTokens = 256;
static_assert(kAttentionSplitTokens % kKvPageTokens == 0);

// One layer's blocks (kv_block.h): within a page, those of the KV heads lie side by side.
struct KvLayerView {
  std::byte* blocks = nullptr;
  DType dtype = DType::f16;  // f16 or f32
  int64_t n_kv_heads = 0;
  int64_t head_dim = 0;
  int64_t page_bytes =
      0;  // from a page's first block to the next page's; 0: no other layer between
  std::byte* block(int64_t page, int64_t kv_head) const {
    const int64_t block_bytes = kv_block_bytes(dtype, head_dim);
    const int64_t stride = page_bytes > 0 ? page_bytes : n_kv_heads * block_bytes;
    return blocks + page * stride + kv_head * block_bytes;
  }
};

struct AttentionShape {
  int64_t n_heads = 0;
  float scale = 0;     // of the scores, 1/sqrt(head_dim) usually
  int64_t window = 0;  // keys a query sees, itself included; 0: all
};

// Consecutive new rows of one sequence, their keys and values already in the cache.
struct AttentionRows {
  const float* q = nullptr;  // (rows, n_heads * head_dim), row stride `stride`
  float* out = nullptr;      // same shape and stride
  int64_t stride = 0;
  int64_t rows = 0;
  int64_t first_position = 0;      // absolute, of row 0
  const int32_t* pages = nullptr;  // page table: token t is in pages[t / kKvPageTokens]
};

// A partial result of one row and one head: max, sum, then the unnormalised output (head_dim). An
// empty or fully masked piece is (-inf, 0, 0).
inline int64_t partial_floats(int64_t head_dim) { return head_dim + 2; }

struct AttentionKernels {
  // Writes k and v (each n_kv_heads * head_dim floats) of the token at `position` to its page.
  void (*append)(const KvLayerView& kv, int32_t page, int64_t slot, const float* k, const float* v);
  // Scratch floats that attend() and attend_split() need.
  int64_t (*scratch_floats)(int64_t group, int64_t head_dim);
  // All of the KV range, for all rows and the heads of one KV head's group; writes rows.out. Any
  // number of rows (blocks them itself).
  void (*attend)(const AttentionShape& shape, const KvLayerView& kv, const AttentionRows& rows,
                 int64_t kv_head, float* scratch);
  // Keys of split s only ([s, s + 1) * kAttentionSplitTokens), for ONE row (rows.rows == 1).
  // partials: (group, partial_floats)
  void (*attend_split)(const AttentionShape& shape, const KvLayerView& kv,
                       const AttentionRows& rows, int64_t kv_head, int64_t split, float* partials,
                       float* scratch);
  // Merges n_splits partials of one head (each `stride` floats after the one before) in order into
  // out (head_dim). With all of them empty: zeros.
  void (*merge)(const float* partials, int64_t n_splits, int64_t stride, int64_t head_dim,
                float* out);
};

const AttentionKernels& attention_kernels(Isa isa);

namespace reference {
// The plain twin: one row and one head at a time, two passes in double.
void attend(const AttentionShape& shape, const KvLayerView& kv, const AttentionRows& rows,
            int64_t kv_head);
}  // namespace reference

}  // namespace ridge
