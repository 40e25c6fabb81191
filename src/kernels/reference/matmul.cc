// SPDX-License-Identifier: Apache-2.0
#include "kernels/matmul.h"

#include <cmath>
#include <limits>
#include <vector>

#include "tensor/codec.h"

namespace ridge::reference {
namespace {

struct Int8Block {
  int q[kActivationBlock];
  float scale;
};

Int8Block quantize_block(const float* x) {
  float amax = 0;
  for (int64_t i = 0; i < kActivationBlock; ++i) {
    // Not std::max: a NaN must survive.
    if (!(std::fabs(x[i]) <= amax)) amax = std::fabs(x[i]);
    if (std::isnan(x[i])) {
      amax = x[i];
      break;
    }
  }
  Int8Block block{{}, amax};
  if (!std::isfinite(amax)) return block;
  block.scale = amax < kSmallestQuantizedMax ? 0 : amax / 127;
  if (block.scale == 0) return block;
  const float inverse = 127 / amax;
  for (int64_t i = 0; i < kActivationBlock; ++i) {
    block.q[i] = static_cast<int>(std::nearbyint(x[i] * inverse));
  }
  return block;
}

void store(float* y, double sum, bool accumulate) {
  *y = static_cast<float>(accumulate ? *y + sum : sum);
}

}  // namespace

void matmul(const TensorView& w, const float* x, int64_t rows, float* y, bool accumulate) {
  std::vector<float> weights(static_cast<size_t>(w.cols));
  for (int64_t n = 0; n < w.rows; ++n) {
    decode(w.dtype, w.row(n), w.cols, weights.data());
    for (int64_t r = 0; r < rows; ++r) {
      double sum = 0;
      for (int64_t k = 0; k < w.cols; ++k) {
        sum += static_cast<double>(x[r * w.cols + k]) * weights[static_cast<size_t>(k)];
      }
      store(&y[r * w.rows + n], sum, accumulate);
    }
  }
}

void matmul_int8(const TensorView& w, const float* x, int64_t rows, float* y, bool accumulate) {
  std::vector<float> weights(static_cast<size_t>(w.cols));
  std::vector<double> quantized(static_cast<size_t>(rows * w.cols));
  for (int64_t i = 0; i < rows * w.cols; i += kActivationBlock) {
    const Int8Block block = quantize_block(x + i);
    for (int64_t k = 0; k < kActivationBlock; ++k) {
      quantized[static_cast<size_t>(i + k)] = static_cast<double>(block.scale) * block.q[k];
    }
  }
  for (int64_t n = 0; n < w.rows; ++n) {
    decode(w.dtype, w.row(n), w.cols, weights.data());
    for (int64_t r = 0; r < rows; ++r) {
      double sum = 0;
      for (int64_t k = 0; k < w.cols; ++k) {
        sum += quantized[static_cast<size_t>(r * w.cols + k)] * weights[static_cast<size_t>(k)];
      }
      store(&y[r * w.rows + n], sum, accumulate);
    }
  }
}

}  // namespace ridge::reference
