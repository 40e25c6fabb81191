// The ops between the matrix products: norms, RoPE, gated activations. All in fp32, row by row.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/cpu_info.h"

namespace ridge {

enum class Activation { silu, gelu_tanh };

struct VectorKernels {
  // y = x / sqrt(mean(x^2) + epsilon) * gain. x, gain, y: (n); y may be x.
  void (*rms_norm)(const float* x, const float* gain, float epsilon, int64_t n, float* y);
  // y += x. (n)
  void (*add)(const float* x, int64_t n, float* y);
  // y *= k. (n)
  void (*scale)(float k, int64_t n, float* y);
  // up = act(gate) * up. (n)
  void (*gated_act)(Activation act, const float* gate, int64_t n, float* up);
  // Turns the first 2 * pairs elements of one head by the angles given. cos, sin: (pairs).
  // Adjacent pairs are (0,1) (2,3) ..., half-split pairs (0,pairs) (1,pairs+1) ...
  void (*rope)(bool adjacent_pairs, const float* cos, const float* sin, int64_t pairs, float* head);
};

// `isa` decides the best Highway target that may be used.
const VectorKernels& vector_kernels(Isa isa);

namespace reference {
void rms_norm(const float* x, const float* gain, float epsilon, int64_t n, float* y);
void gated_act(Activation act, const float* gate, int64_t n, float* up);
void rope(bool adjacent_pairs, const float* cos, const float* sin, int64_t pairs, float* head);
}  // namespace reference

}  // namespace ridge
