// The vector kernels, written once and compiled for each Highway target that an Isa stands for. One
// table per target: an Isa gets its own, whatever else the CPU could run.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/vector_ops.h"

// Three targets: the baseline (plain), AVX2, AVX3. SSE4 would only add what plain must not need.
#define HWY_DISABLED_TARGETS HWY_SSE4
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/vector_ops.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// After highway.h:
#include <hwy/contrib/math/math-inl.h>

#include <cmath>

#include "kernels/cpu/vector_ops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ridge::HWY_NAMESPACE {
namespace {

float sum_of_squares(const float* x, int64_t n) {
  const FloatTag d;
  const int64_t lanes = float_lanes();
  // Four chains hide the latency of the addition.
  auto a = hn::Zero(d), b = a, c = a, e = a;
  int64_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    const auto xa = hn::LoadU(d, x + i), xb = hn::LoadU(d, x + i + lanes);
    const auto xc = hn::LoadU(d, x + i + 2 * lanes), xe = hn::LoadU(d, x + i + 3 * lanes);
    a = hn::MulAdd(xa, xa, a);
    b = hn::MulAdd(xb, xb, b);
    c = hn::MulAdd(xc, xc, c);
    e = hn::MulAdd(xe, xe, e);
  }
  for (; i + lanes <= n; i += lanes) {
    const auto v = hn::LoadU(d, x + i);
    a = hn::MulAdd(v, v, a);
  }
  float sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(a, b), hn::Add(c, e))));
  for (; i < n; ++i) sum += x[i] * x[i];
  return sum;
}

void rms_norm(const float* x, const float* gain, float epsilon, int64_t n, float* y) {
  const float mean = sum_of_squares(x, n) / static_cast<float>(n);
  const float k = 1.0f / std::sqrt(mean + epsilon);
  for_each_vector(n, [&](auto d, int64_t i) HWY_ATTR {
    const auto scaled = hn::Mul(hn::LoadU(d, x + i), hn::Set(d, k));
    hn::StoreU(hn::Mul(scaled, hn::LoadU(d, gain + i)), d, y + i);
  });
}

void add(const float* x, int64_t n, float* y) {
  for_each_vector(n, [&](auto d, int64_t i) HWY_ATTR {
    hn::StoreU(hn::Add(hn::LoadU(d, y + i), hn::LoadU(d, x + i)), d, y + i);
  });
}

void scale(float k, int64_t n, float* y) {
  for_each_vector(n, [&](auto d, int64_t i) HWY_ATTR {
    hn::StoreU(hn::Mul(hn::LoadU(d, y + i), hn::Set(d, k)), d, y + i);
  });
}

// x / (1 + exp(-x)).
template <class D, class V = hn::Vec<D>>
HWY_INLINE V silu(D d, V x) {
  // exp(87) < FLT_MAX < exp(89); below -87 the quotient rounds to nothing next to 1 (< 1e-35).
  const V e = hn::Exp(d, hn::Min(hn::Neg(x), hn::Set(d, 87.0f)));
  return hn::Div(x, hn::Add(hn::Set(d, 1.0f), e));
}

// x/2 (1 + tanh(z)) = x / (1 + exp(-2z)), z = sqrt(2/pi) (x + 0.044715 x^3): one exponential, and
// no cancellation for negative x.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V gelu_tanh(D d, V x) {
  constexpr float kTwoSqrtTwoOverPi = 1.5957691216057308f;
  const V cubic = hn::Mul(hn::Mul(x, x), hn::Set(d, 0.044715f));
  const V z = hn::Mul(hn::Mul(x, hn::Add(hn::Set(d, 1.0f), cubic)), hn::Set(d, kTwoSqrtTwoOverPi));
  const V e = hn::Exp(d, hn::Min(hn::Neg(z), hn::Set(d, 87.0f)));
  return hn::Div(x, hn::Add(hn::Set(d, 1.0f), e));
}

void gated_act(Activation act, const float* gate, int64_t n, float* up) {
  if (act == Activation::silu) {
    for_each_vector(n, [&](auto d, int64_t i) HWY_ATTR {
      hn::StoreU(hn::Mul(silu(d, hn::LoadU(d, gate + i)), hn::LoadU(d, up + i)), d, up + i);
    });
  } else {
    for_each_vector(n, [&](auto d, int64_t i) HWY_ATTR {
      hn::StoreU(hn::Mul(gelu_tanh(d, hn::LoadU(d, gate + i)), hn::LoadU(d, up + i)), d, up + i);
    });
  }
}

template <class V>
struct Turned {
  V first, second;
};

template <class D, class V>
HWY_INLINE Turned<V> turn(D d, V x, V y, const float* cos, const float* sin) {
  const V c = hn::LoadU(d, cos), s = hn::LoadU(d, sin);
  return {hn::MulSub(x, c, hn::Mul(y, s)), hn::MulAdd(x, s, hn::Mul(y, c))};
}

void rope(bool adjacent_pairs, const float* cos, const float* sin, int64_t pairs, float* head) {
  if (!adjacent_pairs) {
    for_each_vector(pairs, [&](auto d, int64_t i) HWY_ATTR {
      const auto t =
          turn(d, hn::LoadU(d, head + i), hn::LoadU(d, head + pairs + i), cos + i, sin + i);
      hn::StoreU(t.first, d, head + i);
      hn::StoreU(t.second, d, head + pairs + i);
    });
    return;
  }
  const FloatTag d;
  const LaneTag one;
  const int64_t lanes = float_lanes();
  int64_t i = 0;
  for (; i + lanes <= pairs; i += lanes) {
    hn::Vec<FloatTag> x, y;
    hn::LoadInterleaved2(d, head + 2 * i, x, y);
    const auto t = turn(d, x, y, cos + i, sin + i);
    hn::StoreInterleaved2(t.first, t.second, d, head + 2 * i);
  }
  for (; i < pairs; ++i) {
    const auto t =
        turn(one, hn::LoadU(one, head + 2 * i), hn::LoadU(one, head + 2 * i + 1), cos + i, sin + i);
    hn::StoreU(t.first, one, head + 2 * i);
    hn::StoreU(t.second, one, head + 2 * i + 1);
  }
}

}  // namespace

const VectorKernels& vector_table() {
  static constexpr VectorKernels kTable = {rms_norm, add, scale, gated_act, rope};
  return kTable;
}

}  // namespace ridge::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ridge {

const VectorKernels& vector_kernels(Isa isa) {
#if HWY_TARGETS & HWY_AVX3
  if (isa == Isa::avx512_vnni) return N_AVX3::vector_table();
#endif
#if HWY_TARGETS & HWY_AVX2
  if (isa == Isa::avx2) return N_AVX2::vector_table();
#endif
  (void)isa;
  return HWY_STATIC_DISPATCH(vector_table)();
}

}  // namespace ridge
#endif
