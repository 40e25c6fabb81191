// The memory behind the page pool. A page holds its tokens' blocks of all layers side by side, so
// what is touched is dense: an unused context costs no memory, and a used one no more than it
// fills.
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
        layer_{nullptr, spec.kv_dtype, spec.n_kv_heads, spec.head_dim, kv_page_bytes(spec)},
        layer_bytes_(kv_page_bytes(spec) / spec.n_layers),
        memory_(static_cast<size_t>(n_pages * kv_page_bytes(spec))) {}

  PagePool& pool() { return pool_; }
  KvLayerView layer(int64_t layer) {
    KvLayerView view = layer_;
    view.blocks = memory_.data() + layer * layer_bytes_;
    return view;
  }
  int64_t bytes() const { return static_cast<int64_t>(memory_.size()); }

 private:
  PagePool pool_;
  KvLayerView layer_;    // without its place
  int64_t layer_bytes_;  // of one page
  AlignedBuffer memory_;
};

}  // namespace ridge
