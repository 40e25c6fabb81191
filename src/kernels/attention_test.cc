// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "base/aligned_buffer.h"
#include "tensor/codec.h"

namespace ridge {
namespace {

constexpr double kEpsilon = std::numeric_limits<float>::epsilon() / 2;  // of one rounding

struct Case {
  int64_t n_heads = 3;
  int64_t n_kv_heads = 1;
  int64_t head_dim = 64;
  int64_t context = 64;  // tokens in the cache, the rows' own included
  int64_t window = 0;
  DType dtype = DType::f16;
  float q_size = 1;

  std::string text() const {
    return std::to_string(n_heads) + " heads, " + std::to_string(n_kv_heads) + " kv, d " +
           std::to_string(head_dim) + ", context " + std::to_string(context) + ", window " +
           std::to_string(window) + " " + std::string(name_of(dtype));
  }
};

// A cache filled by append() on pages in shuffled order. Slots that hold no token are NaN: reading
// one for anything but to discard it shows.
class Scene {
 public:
  Scene(const Case& c, Isa isa, unsigned seed = 7) : c_(c), kernels_(attention_kernels(isa)) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    const int64_t n_pages = (c.context + kKvPageTokens - 1) / kKvPageTokens;
    pages_.resize(static_cast<size_t>(n_pages));
    std::iota(pages_.begin(), pages_.end(), 0);
    std::shuffle(pages_.begin(), pages_.end(), random);
    const auto bytes =
        static_cast<size_t>(n_pages * c.n_kv_heads * kv_block_bytes(c.dtype, c.head_dim));
    memory_.assign(bytes, std::byte{0xff});
    kv_ = {memory_.data(), c.dtype, c.n_kv_heads, c.head_dim};
    std::vector<float> k(static_cast<size_t>(c.n_kv_heads * c.head_dim)), v = k;
    for (int64_t t = 0; t < c.context; ++t) {
      for (float& x : k) x = normal(random);
      for (float& x : v) x = normal(random);
      append(t, k.data(), v.data());
    }
    q_.resize(static_cast<size_t>(c.context * stride()));
    for (float& x : q_) x = c.q_size * normal(random);
    shape_ = {c.n_heads, 1 / std::sqrt(static_cast<float>(c.head_dim)), c.window};
    scratch_.assign(static_cast<size_t>(kernels_.scratch_floats(group(), c.head_dim)), NAN);
  }

  void append(int64_t t, const float* k, const float* v) {
    kernels_.append(kv_, pages_[static_cast<size_t>(t / kKvPageTokens)], t % kKvPageTokens, k, v);
  }

  int64_t group() const { return c_.n_heads / c_.n_kv_heads; }
  // Wider than the heads, as when q lies in a fused q/k/v row.
  int64_t stride() const { return c_.n_heads * c_.head_dim + 5; }
  KvLayerView& kv() { return kv_; }
  AttentionShape& shape() { return shape_; }
  std::vector<float>& q() { return q_; }

  AttentionRows rows(int64_t first, int64_t n, std::vector<float>& out) const {
    return {q_.data() + first * stride(),
            out.data() + first * stride(),
            stride(),
            n,
            first,
            pages_.data()};
  }
  std::vector<float> blank() const { return std::vector<float>(q_.size(), -77.0f); }

  // Rows [first, first + n), in calls of at most `chunk` rows.
  std::vector<float> attend(int64_t first, int64_t n, int64_t chunk) {
    std::vector<float> out = blank();
    for (int64_t row = first; row < first + n; row += chunk) {
      for (int64_t h = 0; h < c_.n_kv_heads; ++h) {
        kernels_.attend(shape_, kv_, rows(row, std::min(chunk, first + n - row), out), h,
                        scratch_.data());
      }
    }
    return out;
  }

  // The same row by row, splits apart, in descending order and from 0 on, then merged.
  std::vector<float> attend_by_splits(int64_t first, int64_t n) {
    std::vector<float> out = blank();
    const int64_t floats = partial_floats(c_.head_dim);
    for (int64_t row = first; row < first + n; ++row) {
      const int64_t n_splits = row / kAttentionSplitTokens + 1;
      std::vector<float> partials(static_cast<size_t>(n_splits * group() * floats), NAN);
      for (int64_t h = 0; h < c_.n_kv_heads; ++h) {
        for (int64_t s = n_splits - 1; s >= 0; --s) {
          kernels_.attend_split(shape_, kv_, rows(row, 1, out), h, s,
                                partials.data() + s * group() * floats, scratch_.data());
        }
        for (int64_t g = 0; g < group(); ++g) {
          float* head_out = out.data() + row * stride() + (h * group() + g) * c_.head_dim;
          kernels_.merge(partials.data() + g * floats, n_splits, group() * floats, c_.head_dim,
                         head_out);
        }
      }
    }
    return out;
  }

  std::vector<float> expected(int64_t first, int64_t n) {
    std::vector<float> out = blank();
    for (int64_t h = 0; h < c_.n_kv_heads; ++h) {
      reference::attend(shape_, kv_, rows(first, n, out), h);
    }
    return out;
  }

  double largest(int64_t from, int64_t to) const {  // of the block elements [from, to)
    double max = 0;
    const int64_t blocks = static_cast<int64_t>(pages_.size()) * c_.n_kv_heads;
    for (int64_t b = 0; b < blocks; ++b) {
      const std::byte* block = kv_.blocks + b * kv_block_bytes(c_.dtype, c_.head_dim);
      for (int64_t i = from; i < to; ++i) {
        const double x = c_.dtype == DType::f32
                             ? reinterpret_cast<const float*>(block)[i]
                             : f16_to_f32(reinterpret_cast<const uint16_t*>(block)[i]);
        if (std::isfinite(x)) max = std::max(max, std::fabs(x));
      }
    }
    return max;
  }

  // A score is a dot product of head_dim terms of scaled q: its error is at most (head_dim + 2)
  // roundings of scale |q| |k|. A weight is off by that factor twice (itself and the sum), by exp
  // (2 ulp, measured bound of Highway) and by the sums over at most 256 tokens and their splits.
  double tolerance() const {
    const double k_max = largest(0, c_.head_dim * kKvPageTokens);
    const double v_max = largest(c_.head_dim * kKvPageTokens, 2 * c_.head_dim * kKvPageTokens);
    double q_norm = 0;
    for (size_t row = 0; row + static_cast<size_t>(c_.head_dim) <= q_.size();
         row += static_cast<size_t>(c_.head_dim)) {
      double sum = 0;
      for (int64_t i = 0; i < c_.head_dim; ++i) sum += std::fabs(q_[row + static_cast<size_t>(i)]);
      q_norm = std::max(q_norm, sum);
    }
    const double score_error =
        static_cast<double>(c_.head_dim + 2) * kEpsilon * double{shape_.scale} * q_norm * k_max;
    // Rounding errors of independent terms add up like a random walk: a tenth of the worst case
    // is still far outside what correct kernels do, and far inside what a wrong mask does.
    return v_max * (0.2 * score_error + kEpsilon * 64);
  }

 private:
  Case c_;
  const AttentionKernels& kernels_;
  std::vector<int32_t> pages_;
  std::vector<std::byte> memory_;
  KvLayerView kv_;
  AttentionShape shape_;
  std::vector<float> q_;
  std::vector<float> scratch_;
};

void expect_close(const std::vector<float>& got, const std::vector<float>& want, double tolerance,
                  const std::string& where) {
  ASSERT_EQ(got.size(), want.size());
  double worst = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    const double difference = std::fabs(double{got[i]} - double{want[i]});
    worst = std::isnan(difference) ? INFINITY : std::max(worst, difference);
  }
  EXPECT_LE(worst, tolerance) << where;
}

::testing::AssertionResult same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::memcmp(&a[i], &b[i], sizeof(float)) != 0) {
      return ::testing::AssertionFailure() << "at " << i << ": " << a[i] << " and " << b[i];
    }
  }
  return ::testing::AssertionSuccess();
}

class Attention : public ::testing::TestWithParam<Isa> {};

INSTANTIATE_TEST_SUITE_P(PerIsa, Attention, ::testing::ValuesIn(cpu_isas()),
                         [](const auto& info) { return std::string(name_of(info.param)); });

TEST_P(Attention, equals_the_reference_on_odd_head_sizes_and_groups) {
  const int64_t heads[][2] = {{1, 1}, {2, 1}, {9, 3}, {7, 1}, {8, 2}, {13, 1}, {16, 1}};
  for (int64_t head_dim : {2, 6, 20, 64, 72, 80, 128, 256, 512}) {
    for (const auto& h : heads) {
      if (head_dim > 128 && h[0] > 3) continue;  // slow in the reference and not different
      for (DType dtype : {DType::f16, DType::f32}) {
        Scene scene({h[0], h[1], head_dim, 70, 0, dtype}, GetParam());
        expect_close(scene.attend(63, 2, 2), scene.expected(63, 2), scene.tolerance(),
                     std::to_string(h[0]) + "/" + std::to_string(h[1]) + " heads of " +
                         std::to_string(head_dim) + " " + std::string(name_of(dtype)));
      }
    }
  }
}

TEST_P(Attention, equals_the_reference_across_page_split_and_window_borders) {
  for (int64_t context : {1, 2, 63, 64, 65, 255, 256, 257, 700}) {
    for (int64_t window : {0, 1, 7, 64, 512}) {
      const Case c{6, 2, 24, context, window};
      Scene scene(c, GetParam());
      const int64_t n = std::min<int64_t>(context, 6);
      expect_close(scene.attend(context - n, n, n), scene.expected(context - n, n),
                   scene.tolerance(), c.text());
    }
  }
}

// The row at each of these positions begins or ends its window on a border.
TEST_P(Attention, a_window_that_begins_or_ends_on_a_border_sees_exactly_its_keys) {
  for (int64_t window : {1, 7, 64, 256, 512}) {
    const Case c{2, 1, 16, 700, window};
    Scene scene(c, GetParam());
    for (int64_t border : {64, 128, 256, 512}) {
      for (int64_t position : {border - 1, border, border + 1, border + window - 2,
                               border + window - 1, border + window}) {
        if (position >= c.context) continue;
        expect_close(scene.attend(position, 1, 1), scene.expected(position, 1), scene.tolerance(),
                     c.text() + ", position " + std::to_string(position));
      }
    }
  }
}

TEST_P(Attention, has_the_same_bits_for_any_chunks_and_for_splits_merged) {
  const int64_t heads[][2] = {{1, 1}, {9, 3}, {4, 1}, {7, 1}, {16, 1}};
  for (DType dtype : {DType::f16, DType::f32}) {
    for (const auto& h : heads) {
      for (int64_t head_dim : {6, 64}) {
        for (int64_t window : {0, 100}) {
          const Case c{h[0], h[1], head_dim, 280, window, dtype};
          Scene scene(c, GetParam());
          const int64_t first = 240, n = 40;  // over a split's border
          const auto whole = scene.attend(first, n, n);
          for (int64_t chunk : {1, 33}) {
            ASSERT_TRUE(same_bits(scene.attend(first, n, chunk), whole))
                << c.text() << ", chunks of " << chunk;
          }
          ASSERT_TRUE(same_bits(scene.attend_by_splits(first, n), whole)) << c.text();
        }
      }
    }
  }
}

TEST_P(Attention, prefill_from_nothing_has_the_bits_of_decoding_token_by_token) {
  const Case c{4, 1, 72, 300, 128};
  Scene scene(c, GetParam());
  ASSERT_TRUE(same_bits(scene.attend(0, 300, 300), scene.attend(0, 300, 1)));
  expect_close(scene.attend(0, 80, 80), scene.expected(0, 80), scene.tolerance(), c.text());
}

TEST_P(Attention, scores_of_ten_thousand_do_not_overflow) {
  for (DType dtype : {DType::f16, DType::f32}) {
    const Case c{3, 1, 8, 300, 0, dtype, 5000};
    Scene scene(c, GetParam());
    expect_close(scene.attend(280, 20, 20), scene.expected(280, 20), scene.tolerance(), c.text());
  }
}

TEST_P(Attention, equal_scores_average_the_values) {
  const Case c{3, 1, 64, 700};
  Scene scene(c, GetParam());
  for (float& x : scene.q()) x = 0;
  expect_close(scene.attend(690, 10, 10), scene.expected(690, 10), scene.tolerance(), c.text());
}

TEST_P(Attention, one_key_alone_returns_its_value_for_every_finite_half) {
  const Case c{1, 1, 512, 1};
  Scene scene(c, GetParam());
  auto* values = reinterpret_cast<uint16_t*>(scene.kv().blocks) + 512 * kKvPageTokens;
  for (int base = 0; base < 65536; base += 512) {
    for (int i = 0; i < 512; ++i) {
      const auto bits = static_cast<uint16_t>(base + i);
      values[i] = std::isfinite(f16_to_f32(bits)) ? bits : 0;
    }
    const auto out = scene.attend(0, 1, 1);
    for (int i = 0; i < 512; ++i) {
      ASSERT_EQ(out[static_cast<size_t>(i)], f16_to_f32(values[i])) << "half " << base + i;
    }
  }
}

TEST_P(Attention, a_piece_without_keys_is_minus_infinity_zero_zero) {
  const Case c{2, 1, 6, 600, 10};
  Scene scene(c, GetParam());
  std::vector<float> out = scene.blank();
  std::vector<float> partials(2 * 8, NAN), scratch(100000);
  const AttentionKernels& kernels = attention_kernels(GetParam());
  ASSERT_LE(kernels.scratch_floats(2, 6), 100000);
  for (int64_t split : {0, 1, 3}) {
    kernels.attend_split(scene.shape(), scene.kv(), scene.rows(599, 1, out), 0, split,
                         partials.data(), scratch.data());
    for (size_t i = 0; i < partials.size(); ++i) {
      EXPECT_EQ(partials[i], i % 8 == 0 ? -INFINITY : 0.0f) << "split " << split << ", float " << i;
    }
  }
  kernels.merge(partials.data(), 2, 8, 6, out.data());
  for (size_t i = 0; i < 6; ++i) EXPECT_EQ(out[i], 0.0f);
  EXPECT_EQ(out[6], -77.0f);
}

TEST_P(Attention, writes_only_the_rows_and_heads_it_was_asked_for) {
  Scene scene({4, 2, 10, 100}, GetParam());
  std::vector<float> out = scene.blank();
  std::vector<float> scratch(100000);
  attention_kernels(GetParam())
      .attend(scene.shape(), scene.kv(), scene.rows(50, 2, out), 1, scratch.data());
  for (int64_t i = 0; i < static_cast<int64_t>(out.size()); ++i) {
    const int64_t row = i / scene.stride(), column = i % scene.stride();
    const bool asked = row >= 50 && row < 52 && column >= 20 && column < 40;
    ASSERT_EQ(out[static_cast<size_t>(i)] != -77.0f, asked) << row << ", " << column;
  }
}

TEST_P(Attention, needs_no_more_scratch_than_it_says) {
  for (int64_t group : {1, 16}) {
    for (int64_t head_dim : {2, 70}) {
      const Case c{group, 1, head_dim, 300};
      Scene scene(c, GetParam());
      const int64_t n = attention_kernels(GetParam()).scratch_floats(group, head_dim);
      std::vector<float> scratch(static_cast<size_t>(n + 64), 123.0f);
      std::vector<float> out = scene.blank();
      attention_kernels(GetParam())
          .attend(scene.shape(), scene.kv(), scene.rows(200, 100, out), 0, scratch.data());
      for (int64_t i = n; i < n + 64; ++i) ASSERT_EQ(scratch[static_cast<size_t>(i)], 123.0f);
    }
  }
}

TEST_P(Attention, append_rounds_to_the_nearest_half_and_touches_one_slot) {
  const int64_t head_dim = 70;
  std::mt19937 random(3);
  const auto bytes = static_cast<size_t>(2 * kv_block_bytes(DType::f16, head_dim));
  std::vector<uint16_t> memory(bytes / 2, 0x7e7e);
  const KvLayerView kv{reinterpret_cast<std::byte*>(memory.data()), DType::f16, 2, head_dim};
  std::vector<float> k, v;
  for (int64_t i = 0; i < 2 * head_dim; ++i) {
    // Halfway between two halves, and a hair beside it; normal and subnormal.
    const float half = f16_to_f32(static_cast<uint16_t>(random() % 0x7bff));
    const float next = f16_to_f32(static_cast<uint16_t>(f32_to_f16(half) + 1));
    k.push_back((half + next) / 2);
    v.push_back(-std::nextafter((half + next) / 2, i % 2 == 0 ? 1e9f : -1e9f));
  }
  attention_kernels(GetParam()).append(kv, 0, 33, k.data(), v.data());
  for (int64_t h = 0; h < 2; ++h) {
    const uint16_t* block = memory.data() + h * 2 * head_dim * kKvPageTokens;
    for (int64_t i = 0; i < head_dim; ++i) {
      const auto from = static_cast<size_t>(h * head_dim + i);
      ASSERT_EQ(block[i * kKvPageTokens + 33], f32_to_f16(k[from])) << k[from];
      ASSERT_EQ(block[(kKvPageTokens + 33) * head_dim + i], f32_to_f16(v[from])) << v[from];
    }
  }
  EXPECT_EQ(std::count(memory.begin(), memory.end(), 0x7e7e),
            static_cast<int64_t>(memory.size()) - 4 * head_dim);
}

TEST_P(Attention, append_keeps_what_no_half_can_hold_as_the_largest_half) {
  std::vector<uint16_t> memory(static_cast<size_t>(kv_block_bytes(DType::f16, 2) / 2));
  const KvLayerView kv{reinterpret_cast<std::byte*>(memory.data()), DType::f16, 1, 2};
  const float k[2] = {1e6f, -1e6f}, v[2] = {65504.0f, -INFINITY};
  attention_kernels(GetParam()).append(kv, 0, 0, k, v);
  EXPECT_EQ(memory[0], 0x7bff);
  EXPECT_EQ(memory[kKvPageTokens], 0xfbff);
  EXPECT_EQ(memory[2 * kKvPageTokens], 0x7bff);
  EXPECT_EQ(memory[2 * kKvPageTokens + 1], 0xfbff);
}

}  // namespace
}  // namespace ridge
