// Shared by the Highway kernels of this folder, compiled once per target: walking n floats by whole
// vectors and the tail by single lanes. A lane computes the same wherever it stands, so results do
// not depend on where the tail begins.
// SPDX-License-Identifier: Apache-2.0

// clang-format off
#if defined(RIDGE_KERNELS_CPU_VECTOR_OPS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef RIDGE_KERNELS_CPU_VECTOR_OPS_INL_H
#undef RIDGE_KERNELS_CPU_VECTOR_OPS_INL_H
#else
#define RIDGE_KERNELS_CPU_VECTOR_OPS_INL_H
#endif
// clang-format on

#include <hwy/highway.h>

#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace ridge::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using FloatTag = hn::ScalableTag<float>;
using LaneTag = hn::CappedTag<float, 1>;

HWY_INLINE int64_t float_lanes() { return static_cast<int64_t>(hn::Lanes(FloatTag())); }

// body(tag, i) with the tag of a whole vector or of one lane, i ascending.
template <class Body>
HWY_INLINE void for_each_vector(int64_t n, const Body& body) {
  const int64_t lanes = float_lanes();
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) body(FloatTag(), i);
  for (; i < n; ++i) body(LaneTag(), i);
}

}  // namespace ridge::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
