// SPDX-License-Identifier: Apache-2.0
#include "kernels/vector_ops.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

namespace ridge {
namespace {

constexpr double kEpsilon = std::numeric_limits<float>::epsilon() / 2;  // of one rounding

// Past the end of `n` stands a guard that no kernel may touch.
constexpr float kGuard = -77;

std::vector<float> numbers(int64_t n, unsigned seed, float size = 1) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, size);
  std::vector<float> x;
  for (int64_t i = 0; i < n; ++i) x.push_back(normal(random));
  x.push_back(kGuard);
  return x;
}

class VectorOps : public ::testing::TestWithParam<Isa> {
 protected:
  const VectorKernels& kernels() const { return vector_kernels(GetParam()); }
};

INSTANTIATE_TEST_SUITE_P(PerIsa, VectorOps, ::testing::ValuesIn(cpu_isas()),
                         [](const auto& info) { return std::string(name_of(info.param)); });

// Any order of adding n squares is off by at most n roundings, halved by the root; 4 for the rest.
TEST_P(VectorOps, rms_norm_equals_the_reference) {
  for (int64_t n : {1,  2,  3,  4,  5,  7,  8,  9,  15, 16,  17,  31,  32,
                    33, 47, 48, 49, 63, 64, 65, 66, 70, 576, 640, 2048}) {
    for (float size : {1e-4f, 1.0f, 1e3f}) {
      const auto x = numbers(n, 1, size), gain = numbers(n, 2);
      std::vector<float> got(x.size(), kGuard), want = got;
      kernels().rms_norm(x.data(), gain.data(), 1e-5f, n, got.data());
      reference::rms_norm(x.data(), gain.data(), 1e-5f, n, want.data());
      for (int64_t i = 0; i < n; ++i) {
        const auto at = static_cast<size_t>(i);
        ASSERT_NEAR(got[at], want[at],
                    (static_cast<double>(n) / 2 + 4) * kEpsilon * std::fabs(want[at]))
            << "n " << n << ", element " << i;
      }
      EXPECT_EQ(got.back(), kGuard);
    }
  }
}

TEST_P(VectorOps, rms_norm_may_write_over_its_input) {
  for (int64_t n : {1, 15, 64, 70}) {
    auto x = numbers(n, 1);
    const auto gain = numbers(n, 2);
    std::vector<float> apart(x.size(), kGuard);
    kernels().rms_norm(x.data(), gain.data(), 1e-6f, n, apart.data());
    kernels().rms_norm(x.data(), gain.data(), 1e-6f, n, x.data());
    EXPECT_EQ(x, apart);
  }
}

TEST_P(VectorOps, rms_norm_of_zeros_is_zeros) {
  std::vector<float> x(20, 0.0f), gain(20, 3.0f), y(20, 1.0f);
  kernels().rms_norm(x.data(), gain.data(), 1e-6f, 20, y.data());
  EXPECT_EQ(y, x);
}

TEST_P(VectorOps, add_and_scale_round_each_element_once) {
  for (int64_t n = 1; n <= 70; ++n) {
    const auto x = numbers(n, 1);
    auto y = numbers(n, 2);
    const auto before = y;
    kernels().add(x.data(), n, y.data());
    for (size_t i = 0; i < static_cast<size_t>(n); ++i) ASSERT_EQ(y[i], before[i] + x[i]);
    EXPECT_EQ(y.back(), kGuard);
    y = before;
    kernels().scale(1.7f, n, y.data());
    for (size_t i = 0; i < static_cast<size_t>(n); ++i) ASSERT_EQ(y[i], before[i] * 1.7f);
    EXPECT_EQ(y.back(), kGuard);
  }
}

// The error of the exponential is relative; its argument z carries 6 roundings, so e^z is off by
// 6 z roundings, and x / (1 + e^z) by no more of itself. The reference's own 1 + tanh(z) cancels to
// a rounding of double next to x.
TEST_P(VectorOps, gated_act_equals_the_reference) {
  for (Activation act : {Activation::silu, Activation::gelu_tanh}) {
    for (int64_t n = 1; n <= 70; ++n) {
      for (float size : {0.01f, 1.0f, 5.0f}) {
        const auto gate = numbers(n, 1, size);
        auto got = numbers(n, 2), want = got;
        kernels().gated_act(act, gate.data(), n, got.data());
        reference::gated_act(act, gate.data(), n, want.data());
        for (size_t i = 0; i < static_cast<size_t>(n); ++i) {
          const double x = std::fabs(gate[i]);
          const double z = act == Activation::silu ? x : 1.6 * (x + 0.045 * x * x * x);
          ASSERT_NEAR(got[i], want[i], (6 * z + 8) * kEpsilon * std::fabs(want[i]) + 1e-15 * x)
              << "gate " << gate[i] << ", n " << n;
        }
        EXPECT_EQ(got.back(), kGuard);
      }
    }
  }
}

TEST_P(VectorOps, gated_act_of_huge_gates_is_the_gate_or_nothing) {
  for (Activation act : {Activation::silu, Activation::gelu_tanh}) {
    for (float x : {50.0f, 200.0f, 1e4f, 1e10f}) {
      const float gates[2] = {x, -x};
      float up[2] = {2, 2};
      kernels().gated_act(act, gates, 2, up);
      EXPECT_EQ(up[0], 2 * x);
      EXPECT_NEAR(up[1], 0, 1e-15) << x;
    }
  }
}

TEST_P(VectorOps, silu_and_gelu_are_told_apart) {
  const float gate = 1;
  float silu = 1, gelu = 1;
  kernels().gated_act(Activation::silu, &gate, 1, &silu);
  kernels().gated_act(Activation::gelu_tanh, &gate, 1, &gelu);
  EXPECT_NEAR(silu, 0.731058578630005, 1e-7);
  EXPECT_NEAR(gelu, 0.841191990608306, 1e-6);
}

TEST_P(VectorOps, rope_equals_the_reference_in_both_pairings) {
  for (bool adjacent : {true, false}) {
    for (int64_t pairs = 1; pairs <= 70; ++pairs) {
      auto cos = numbers(pairs, 1), sin = cos;
      for (size_t i = 0; i < static_cast<size_t>(pairs); ++i) {
        const float angle = cos[i] * 100;
        cos[i] = std::cos(angle);
        sin[i] = std::sin(angle);
      }
      // Elements after the pairs stay: a partial rotation.
      auto got = numbers(2 * pairs + 3, 2), want = got;
      kernels().rope(adjacent, cos.data(), sin.data(), pairs, got.data());
      reference::rope(adjacent, cos.data(), sin.data(), pairs, want.data());
      for (size_t i = 0; i < got.size(); ++i) {
        // Two products and a sum of numbers that may cancel.
        const double tolerance = i < static_cast<size_t>(2 * pairs) ? 3 * kEpsilon * 8 : 0;
        ASSERT_NEAR(got[i], want[i], tolerance) << pairs << " pairs, element " << i;
      }
    }
  }
}

TEST_P(VectorOps, swapping_the_rope_pairing_gives_something_else) {
  const auto cos = numbers(32, 1), sin = numbers(32, 2);
  auto adjacent = numbers(64, 3), halves = adjacent;
  kernels().rope(true, cos.data(), sin.data(), 32, adjacent.data());
  kernels().rope(false, cos.data(), sin.data(), 32, halves.data());
  double difference = 0;
  for (size_t i = 0; i < 64; ++i) difference += std::fabs(adjacent[i] - halves[i]);
  EXPECT_GT(difference, 10);
}

TEST_P(VectorOps, adjacent_rope_turns_neighbours_and_split_rope_turns_halves) {
  const float cos[2] = {0, 1}, sin[2] = {1, 0};  // a quarter turn of pair 0, pair 1 stays
  float adjacent[4] = {1, 2, 3, 4}, halves[4] = {1, 2, 3, 4};
  kernels().rope(true, cos, sin, 2, adjacent);
  kernels().rope(false, cos, sin, 2, halves);
  EXPECT_EQ(std::vector<float>(adjacent, adjacent + 4), (std::vector<float>{-2, 1, 3, 4}));
  EXPECT_EQ(std::vector<float>(halves, halves + 4), (std::vector<float>{-3, 2, 1, 4}));
}

// Every family has code of its own: where it did not, a test per family would test one thing
// thrice.
TEST(VectorKernels, each_family_has_its_own_table) {
#if defined(__x86_64__)
  EXPECT_NE(&vector_kernels(Isa::plain), &vector_kernels(Isa::avx2));
  EXPECT_NE(&vector_kernels(Isa::avx2), &vector_kernels(Isa::avx512_vnni));
#endif
}

}  // namespace
}  // namespace ridge
