// The memory behind the page pool: one block per layer, page and KV head. Pages are touched only
// when written, so an unused context costs no memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/aligned_buffer.h"
#include "kernels/attention.h"
#include "kv/layout.h"
#include "kv/page_pool.h"

namespace ridge {

class KvStore {
 public:
  KvStore(const ModelSpec& spec, int64_t n_pages)
      : pool_(n_pages),
        spec_{spec.kv_dtype, spec.n_kv_heads, spec.head_dim},
        layer_bytes_(static_cast<size_t>(n_pages * kv_page_bytes(spec) / spec.n_layers)),
        memory_(layer_bytes_ * static_cast<size_t>(spec.n_layers)) {}

  PagePool& pool() { return pool_; }
  KvLayerView layer(int64_t layer) {
    return {memory_.data() + layer_bytes_ * static_cast<size_t>(layer), spec_.dtype,
            spec_.n_kv_heads, spec_.head_dim};
  }
  int64_t bytes() const { return static_cast<int64_t>(memory_.size()); }

 private:
  struct BlockSpec {
    DType dtype;
    int64_t n_kv_heads, head_dim;
  };
  PagePool pool_;
  BlockSpec spec_;
  size_t layer_bytes_;
  AlignedBuffer memory_;
};

}  // namespace ridge
