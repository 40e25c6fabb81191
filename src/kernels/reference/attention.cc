// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "tensor/codec.h"

namespace ridge::reference {
namespace {

// Element `index` of the block that holds token `token`: K (head_dim, page), then V.
double element(const KvLayerView& kv, const AttentionRows& rows, int64_t kv_head, int64_t token,
               int64_t index) {
  const std::byte* block = kv.block(rows.pages[token / kKvPageTokens], kv_head);
  if (kv.dtype == DType::f32) return reinterpret_cast<const float*>(block)[index];
  return f16_to_f32(reinterpret_cast<const uint16_t*>(block)[index]);
}

void attend_one(const AttentionShape& shape, const KvLayerView& kv, const AttentionRows& rows,
                int64_t kv_head, int64_t row, int64_t head) {
  const int64_t n = kv.head_dim;
  const int64_t position = rows.first_position + row;
  const int64_t first = shape.window > 0 ? std::max<int64_t>(0, position - shape.window + 1) : 0;
  const float* q = rows.q + row * rows.stride + head * n;
  float* out = rows.out + row * rows.stride + head * n;
  std::vector<double> weights;
  double max = -std::numeric_limits<double>::infinity();
  for (int64_t t = first; t <= position; ++t) {
    double score = 0;
    for (int64_t i = 0; i < n; ++i) {
      score += q[i] * element(kv, rows, kv_head, t, i * kKvPageTokens + t % kKvPageTokens);
    }
    weights.push_back(score * double{shape.scale});
    max = std::max(max, weights.back());
  }
  double sum = 0;
  for (double& w : weights) sum += w = std::exp(w - max);
  for (int64_t i = 0; i < n; ++i) {
    double y = 0;
    for (int64_t t = first; t <= position; ++t) {
      const int64_t index = kKvPageTokens * n + t % kKvPageTokens * n + i;
      y += weights[static_cast<size_t>(t - first)] * element(kv, rows, kv_head, t, index);
    }
    out[i] = sum > 0 ? static_cast<float>(y / sum) : 0.0f;
  }
}

}  // namespace

void attend(const AttentionShape& shape, const KvLayerView& kv, const AttentionRows& rows,
            int64_t kv_head) {
  const int64_t group = shape.n_heads / kv.n_kv_heads;
  for (int64_t row = 0; row < rows.rows; ++row) {
    for (int64_t g = 0; g < group; ++g) {
      attend_one(shape, kv, rows, kv_head, row, kv_head * group + g);
    }
  }
}

}  // namespace ridge::reference
