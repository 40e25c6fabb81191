// The matmul families against their plain twins, on shapes that fit nothing and on the values that
// would overflow a narrow sum.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/matmul.h"

#include <gtest/gtest.h>

#include <bit>
#include <cfloat>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/rng.h"
#include "tensor/codec.h"

namespace ridge {
namespace {

constexpr double kEpsilon = FLT_EPSILON / 2;  // relative error of one rounding
constexpr float kLargestScale = 0.02f;

constexpr DType kAllTypes[] = {DType::f32,  DType::f16,  DType::bf16, DType::q4_0, DType::q4_1,
                               DType::q5_0, DType::q5_1, DType::q8_0, DType::q2_k, DType::q3_k,
                               DType::q4_k, DType::q5_k, DType::q6_k};

// Where a block holds its f16 scales (GGUF specification).
std::vector<size_t> scale_offsets(DType dtype) {
  switch (dtype) {
    case DType::q4_0:
    case DType::q5_0:
    case DType::q8_0:
      return {0};
    case DType::q4_1:
    case DType::q5_1:
    case DType::q4_k:
    case DType::q5_k:
      return {0, 2};
    case DType::q2_k:
      return {80, 82};
    case DType::q3_k:
      return {108};
    case DType::q6_k:
      return {208};
    default:
      return {};
  }
}

// What a kernel may subtract from unsigned quants by way of a float, for the error bound.
double largest_offset(DType dtype) {
  switch (dtype) {
    case DType::q4_0:
      return 8;
    case DType::q5_0:
      return 16;
    case DType::q8_0:
      return 128;
    // Scales of scales reach 63; d * 63 * q and dmin * 63 are summed apart.
    case DType::q4_1:
    case DType::q5_1:
      return 32;
    case DType::q4_k:
    case DType::q5_k:
      return 63 * 32;
    default:
      return 0;
  }
}

void put_f16(std::byte* p, float value) {
  const uint16_t bits = f32_to_f16(value);
  std::memcpy(p, &bits, 2);
}

float uniform(Rng& rng, float low, float high) {
  return low + (high - low) * static_cast<float>(rng.uniform());
}

void put_float(DType dtype, float value, std::byte* p) {
  if (dtype == DType::f32) {
    std::memcpy(p, &value, 4);
  } else if (dtype == DType::f16) {
    put_f16(p, value);
  } else {
    const uint16_t bits = f32_to_bf16(value);
    std::memcpy(p, &bits, 2);
  }
}

// A weight with random bits and sane scales, or with every byte but the scales equal to `fill`.
struct Weight {
  DType dtype;
  int64_t rows, cols;
  std::vector<std::byte> bytes;
  AlignedBuffer packed;

  Weight(DType type, int64_t n_rows, int64_t n_cols, uint64_t seed, int fill = -1)
      : dtype(type), rows(n_rows), cols(n_cols) {
    Rng rng(seed);
    bytes.resize(static_cast<size_t>(view().bytes()));
    const BlockFormat format = block_format(dtype);
    for (size_t at = 0; at < bytes.size(); at += static_cast<size_t>(format.bytes)) {
      std::byte* block = bytes.data() + at;
      if (is_float(dtype)) {
        put_float(dtype, uniform(rng, -1, 1), block);
        continue;
      }
      for (int64_t i = 0; i < format.bytes; ++i) {
        block[i] = static_cast<std::byte>(fill < 0 ? rng.next() : static_cast<uint64_t>(fill));
      }
      for (size_t offset : scale_offsets(dtype)) {
        put_f16(block + offset, uniform(rng, -kLargestScale, kLargestScale));
      }
    }
    packed = AlignedBuffer(static_cast<size_t>(packed_bytes(dtype, rows, cols)));
    pack_tiles(view(), 0, packed_view().tiles(), packed.data());
  }

  TensorView view() const { return {bytes.data(), dtype, rows, cols}; }
  PackedView packed_view() const { return {packed.data(), dtype, rows, cols}; }
};

std::vector<float> random_activations(int64_t n, uint64_t seed) {
  Rng rng(seed);
  std::vector<float> x(static_cast<size_t>(n));
  for (float& value : x) value = uniform(rng, -2, 2);
  return x;
}

struct Quantized {
  std::vector<int8_t> q8;
  std::vector<float> scale, block_sum;
  int64_t rows, cols;

  Quantized(const MatmulKernels& kernels, const std::vector<float>& x, int64_t n_cols)
      : q8(x.size()),
        scale(x.size() / kActivationBlock),
        block_sum(scale.size()),
        rows(static_cast<int64_t>(x.size()) / n_cols),
        cols(n_cols) {
    kernels.quantize(x.data(), rows, cols, q8.data(), scale.data(), block_sum.data());
  }
  Activations view(int64_t first, int64_t n) const {
    const int64_t blocks = cols / kActivationBlock;
    return {.rows = n,
            .cols = cols,
            .q8 = q8.data() + first * cols,
            .scale = scale.data() + first * blocks,
            .block_sum = block_sum.data() + first * blocks};
  }
};

Activations float_view(const std::vector<float>& x, int64_t cols) {
  return {.rows = static_cast<int64_t>(x.size()) / cols, .cols = cols, .f32 = x.data()};
}

std::vector<int64_t> test_cols(DType dtype) {
  if (is_float(dtype)) return {1, 7, 256, 515};
  if (block_format(dtype).elements == 32) return {32, 96, 576};
  return {256, 768};
}

constexpr int64_t kTestRows[] = {1, 15, 16, 17, 48};
constexpr int64_t kTestBatch[] = {1, 2, 3, 5, 8, 17, 33};

// Largest allowed error of each output: `roundings` per term of sum |x| (|w| + extra).
std::vector<double> error_bounds(const Weight& w, const std::vector<float>& x, double roundings,
                                 double extra) {
  const int64_t m = static_cast<int64_t>(x.size()) / w.cols;
  std::vector<double> bounds(static_cast<size_t>(m * w.rows));
  std::vector<float> row(static_cast<size_t>(w.cols));
  for (int64_t n = 0; n < w.rows; ++n) {
    decode(w.dtype, w.view().row(n), w.cols, row.data());
    for (int64_t r = 0; r < m; ++r) {
      double sum = 0;
      for (int64_t k = 0; k < w.cols; ++k) {
        sum += std::fabs(x[static_cast<size_t>(r * w.cols + k)]) *
               (std::fabs(row[static_cast<size_t>(k)]) + extra);
      }
      bounds[static_cast<size_t>(r * w.rows + n)] = kEpsilon * roundings * sum + FLT_MIN;
    }
  }
  return bounds;
}

void expect_within(const std::vector<float>& y, int64_t stride, const std::vector<float>& expected,
                   const std::vector<double>& bounds, int64_t rows) {
  for (size_t i = 0; i < expected.size(); ++i) {
    const size_t r = i / static_cast<size_t>(rows), n = i % static_cast<size_t>(rows);
    const double difference = y[r * static_cast<size_t>(stride) + n] - expected[i];
    ASSERT_LE(std::fabs(difference), bounds[i]) << "activation row " << r << ", output " << n;
  }
}

class MatmulOnIsa : public testing::TestWithParam<Isa> {
 protected:
  void SetUp() override {
    if (!cpu_has(GetParam())) {
      GTEST_SKIP() << "this CPU lacks " << name_of(GetParam()) << ": its matmul is NOT tested here";
    }
  }
  const MatmulKernels& kernels() const { return matmul_kernels(GetParam()); }

  std::vector<float> fast(const Weight& w, const Activations& x) const {
    std::vector<float> y(static_cast<size_t>(x.rows * w.rows), -7.0f);
    kernels().matmul(w.packed_view(), x, 0, w.packed_view().tiles(), y.data(), w.rows, false);
    return y;
  }

  void check_exact(const Weight& w, const std::vector<float>& x) const {
    const Activations a = float_view(x, w.cols);
    std::vector<float> expected(static_cast<size_t>(a.rows * w.rows));
    reference::matmul(w.view(), x.data(), a.rows, expected.data(), false);
    expect_within(fast(w, a), w.rows, expected,
                  error_bounds(w, x, static_cast<double>(w.cols) + 4, 0), w.rows);
  }

  void check_int8(const Weight& w, const std::vector<float>& x) const {
    const Quantized q(kernels(), x, w.cols);
    std::vector<float> expected(static_cast<size_t>(q.rows * w.rows));
    reference::matmul_int8(w.view(), x.data(), q.rows, expected.data(), false);
    // Two additions a block, four roundings in each term.
    const double roundings = 2.0 * static_cast<double>(w.cols / kActivationBlock) + 8;
    expect_within(
        fast(w, q.view(0, q.rows)), w.rows, expected,
        error_bounds(w, x, roundings, largest_offset(w.dtype) * static_cast<double>(kLargestScale)),
        w.rows);
  }
};

INSTANTIATE_TEST_SUITE_P(Each, MatmulOnIsa,
                         testing::Values(Isa::plain, Isa::avx2, Isa::avx512_vnni),
                         [](const auto& info) { return std::string(name_of(info.param)); });

TEST(Packing, a_row_comes_back_bit_for_bit_as_decode_gives_it) {
  for (DType dtype : kAllTypes) {
    for (int64_t rows : kTestRows) {
      for (int64_t cols : test_cols(dtype)) {
        const Weight w(dtype, rows, cols, 1);
        std::vector<float> expected(static_cast<size_t>(cols)), row(expected);
        for (int64_t n = 0; n < rows; ++n) {
          decode(dtype, w.view().row(n), cols, expected.data());
          unpack_row(w.packed_view(), n, row.data());
          ASSERT_EQ(std::memcmp(row.data(), expected.data(), row.size() * sizeof(float)), 0)
              << name_of(dtype) << " " << rows << "x" << cols << " row " << n;
        }
      }
    }
  }
}

TEST(Packing, needs_hardly_more_bytes_than_the_file) {
  for (DType dtype : kAllTypes) {
    const int64_t file = bytes_of(dtype, 2048) * 64;
    EXPECT_GE(packed_bytes(dtype, 64, 2048), file) << name_of(dtype);
    EXPECT_LE(packed_bytes(dtype, 64, 2048), file + file * 3 / 100) << name_of(dtype);
  }
}

TEST(Packing, disjoint_tile_ranges_give_the_whole) {
  for (DType dtype : kAllTypes) {
    const Weight w(dtype, 40, 256, 2);
    AlignedBuffer parts(w.packed.size());
    std::memset(parts.data(), 0x5a, parts.size());
    for (int64_t tile : {2, 0, 1}) pack_tiles(w.view(), tile, tile + 1, parts.data());
    EXPECT_EQ(std::memcmp(parts.data(), w.packed.data(), parts.size()), 0) << name_of(dtype);
  }
}

TEST_P(MatmulOnIsa, float_activations_agree_with_the_plain_twin_for_every_type_and_shape) {
  for (DType dtype : kAllTypes) {
    for (int64_t rows : kTestRows) {
      for (int64_t cols : test_cols(dtype)) {
        const Weight w(dtype, rows, cols, 3);
        for (int64_t m : kTestBatch) {
          SCOPED_TRACE(std::string(name_of(dtype)) + " " + std::to_string(rows) + "x" +
                       std::to_string(cols) + " batch " + std::to_string(m));
          check_exact(w, random_activations(m * cols, 4));
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

TEST_P(MatmulOnIsa, int8_activations_agree_with_the_plain_twin_for_every_type_and_shape) {
  for (DType dtype : kAllTypes) {
    if (!takes_int8(dtype)) continue;
    for (int64_t rows : kTestRows) {
      for (int64_t cols : test_cols(dtype)) {
        const Weight w(dtype, rows, cols, 5);
        for (int64_t m : kTestBatch) {
          SCOPED_TRACE(std::string(name_of(dtype)) + " " + std::to_string(rows) + "x" +
                       std::to_string(cols) + " batch " + std::to_string(m));
          check_int8(w, random_activations(m * cols, 6));
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

TEST_P(MatmulOnIsa, no_partial_sum_overflows_at_the_extremes) {
  const int64_t cols = 512;
  std::vector<std::vector<float>> inputs(5, std::vector<float>(3 * cols, 0.0f));
  inputs[0].assign(3 * cols, 127.0f);
  inputs[1].assign(3 * cols, -127.0f);
  for (size_t i = 0; i < inputs[2].size(); ++i) inputs[2][i] = i % 2 ? 127.0f : -127.0f;
  inputs[3][77] = 1e30f;  // one huge value; 4 stays zero
  for (DType dtype : kAllTypes) {
    if (!takes_int8(dtype)) continue;
    for (int fill : {0x00, 0xff, 0x80, 0x7f, 0x0f, 0xf0}) {
      const Weight w(dtype, 17, cols, 7, fill);
      for (size_t i = 0; i < inputs.size(); ++i) {
        SCOPED_TRACE(std::string(name_of(dtype)) + " bytes " + std::to_string(fill) + " input " +
                     std::to_string(i));
        check_int8(w, inputs[i]);
        check_exact(w, inputs[i]);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(MatmulOnIsa, a_row_does_not_depend_on_its_neighbours) {
  for (DType dtype : kAllTypes) {
    const int64_t cols = 768, rows = 50, batch = 37;
    const Weight w(dtype, rows, cols, 8);
    const std::vector<float> x = random_activations(batch * cols, 9);
    const Quantized q(kernels(), x, cols);
    for (bool int8 : {false, true}) {
      if (int8 && !takes_int8(dtype)) continue;
      const auto part = [&](int64_t first, int64_t n) {
        if (int8) return q.view(first, n);
        return Activations{.rows = n, .cols = cols, .f32 = x.data() + first * cols};
      };
      const std::vector<float> all = fast(w, part(0, batch));
      for (int64_t n : {1, 2, 3, 7, 8, 19}) {
        for (int64_t first = 0; first + n <= batch; first += n) {
          const std::vector<float> y = fast(w, part(first, n));
          ASSERT_EQ(std::memcmp(y.data(), all.data() + first * rows, y.size() * sizeof(float)), 0)
              << name_of(dtype) << (int8 ? " int8" : " float") << " rows " << first << "+" << n;
        }
      }
    }
  }
}

TEST_P(MatmulOnIsa, tiles_may_be_split_anywhere_and_only_their_outputs_are_written) {
  for (DType dtype : kAllTypes) {
    const int64_t cols = 512, rows = 72, stride = 80, batch = 11;
    const Weight w(dtype, rows, cols, 10);
    const std::vector<float> x = random_activations(batch * cols, 11);
    const Quantized q(kernels(), x, cols);
    const Activations a = takes_int8(dtype) ? q.view(0, batch) : float_view(x, cols);
    const std::vector<float> whole = fast(w, a);
    for (int64_t split = 0; split <= 5; ++split) {
      std::vector<float> y(batch * stride, 3.5f);
      kernels().matmul(w.packed_view(), a, split, 5, y.data(), stride, false);
      for (int64_t i = 0; i < batch * stride; ++i) {
        const int64_t r = i / stride, n = i % stride;
        const bool written = n < rows && n >= split * kTileRows;
        const float expected = written ? whole[static_cast<size_t>(r * rows + n)] : 3.5f;
        ASSERT_EQ(y[static_cast<size_t>(i)], expected) << name_of(dtype) << " split " << split;
      }
    }
  }
}

TEST_P(MatmulOnIsa, accumulate_adds_to_what_is_there) {
  for (DType dtype : kAllTypes) {
    const int64_t cols = 512, rows = 23, batch = 9;
    const Weight w(dtype, rows, cols, 12);
    const std::vector<float> x = random_activations(batch * cols, 13);
    const Quantized q(kernels(), x, cols);
    const Activations a = takes_int8(dtype) ? q.view(0, batch) : float_view(x, cols);
    const std::vector<float> plain = fast(w, a);
    std::vector<float> y(plain.size(), 100.0f);
    kernels().matmul(w.packed_view(), a, 0, w.packed_view().tiles(), y.data(), rows, true);
    const std::vector<double> bounds = error_bounds(w, x, 600, 1);
    for (size_t i = 0; i < y.size(); ++i) {
      ASSERT_NEAR(y[i], plain[i] + 100, bounds[i] + 600 * kEpsilon * 100) << name_of(dtype);
    }
  }
}

TEST_P(MatmulOnIsa, quantising_gives_the_same_bits_as_the_plain_family) {
  const int64_t cols = 320;
  std::vector<float> x = random_activations(3 * cols, 14);
  for (int64_t i = 0; i < 32; ++i) {
    x[static_cast<size_t>(i)] = 0;                                      // a block of zeros
    x[static_cast<size_t>(32 + i)] = 1e-33f;                            // too small
    x[static_cast<size_t>(64 + i)] = static_cast<float>(i) * 0.5f - 8;  // ties
    x[static_cast<size_t>(96 + i)] = i == 5 ? -3e38f : 1e37f;
  }
  const Quantized expected(matmul_kernels(Isa::plain), x, cols);
  const Quantized q(kernels(), x, cols);
  EXPECT_EQ(q.q8, expected.q8);
  EXPECT_EQ(q.scale, expected.scale);
  EXPECT_EQ(q.block_sum, expected.block_sum);
  EXPECT_EQ(q.scale[0], 0);
  EXPECT_EQ(q.scale[1], 0);
  EXPECT_EQ(q.q8[96 + 5], -127);
}

TEST_P(MatmulOnIsa, a_nan_or_infinity_poisons_its_own_row_only) {
  const float bad[] = {
      std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::quiet_NaN(),
      std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity()};
  for (DType dtype : kAllTypes) {
    if (!takes_int8(dtype)) continue;
    const Weight w(dtype, 17, 256, 15);
    for (float value : bad) {
      std::vector<float> x = random_activations(3 * 256, 16);
      x[256 + 100] = value;
      const std::vector<float> y = fast(w, Quantized(kernels(), x, 256).view(0, 3));
      for (size_t i = 0; i < y.size(); ++i) {
        ASSERT_EQ(std::isnan(y[i]), i / 17 == 1) << name_of(dtype) << " of " << value;
      }
    }
  }
}

TEST_P(MatmulOnIsa, a_very_wide_row_needs_no_larger_scratch) {
  for (DType dtype : {DType::q4_0, DType::q6_k, DType::f16}) {
    const Weight w(dtype, 18, 65536, 17);
    const std::vector<float> x = random_activations(5 * w.cols, 18);
    check_exact(w, x);
    if (takes_int8(dtype)) check_int8(w, x);
  }
}

// The most that a model may have (model/arch_defaults.h, kMaxWidth).
TEST_P(MatmulOnIsa, the_widest_row_fits_the_scratch) {
  const Weight w(DType::q6_k, 16, 1 << 18, 19);
  check_int8(w, random_activations(2 * w.cols, 20));
}

}  // namespace
}  // namespace ridge
