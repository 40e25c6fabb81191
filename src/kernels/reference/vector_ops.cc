// SPDX-License-Identifier: Apache-2.0
#include "kernels/vector_ops.h"

#include <cmath>
#include <numbers>

namespace ridge::reference {

void rms_norm(const float* x, const float* gain, float epsilon, int64_t n, float* y) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += double{x[i]} * x[i];
  const double k = 1 / std::sqrt(sum / static_cast<double>(n) + double{epsilon});
  for (int64_t i = 0; i < n; ++i) y[i] = static_cast<float>(x[i] * k * gain[i]);
}

void gated_act(Activation act, const float* gate, int64_t n, float* up) {
  for (int64_t i = 0; i < n; ++i) {
    const double x = gate[i];
    double y = 0;
    switch (act) {
      case Activation::silu:
        y = x / (1 + std::exp(-x));
        break;
      case Activation::gelu_tanh:
        y = x / 2 * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
        break;
    }
    up[i] = static_cast<float>(y * up[i]);
  }
}

void rope(bool adjacent_pairs, const float* cos, const float* sin, int64_t pairs, float* head) {
  for (int64_t i = 0; i < pairs; ++i) {
    float& x = adjacent_pairs ? head[2 * i] : head[i];
    float& y = adjacent_pairs ? head[2 * i + 1] : head[pairs + i];
    const double x0 = x, y0 = y;
    x = static_cast<float>(x0 * cos[i] - y0 * sin[i]);
    y = static_cast<float>(x0 * sin[i] + y0 * cos[i]);
  }
}

}  // namespace ridge::reference
