// SPDX-License-Identifier: Apache-2.0
#include "tensor/codec.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

#include "base/rng.h"

namespace ridge {
namespace {

std::vector<char> read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

class Golden : public testing::TestWithParam<int> {};

TEST_P(Golden, decodes_to_the_bits_of_the_gguf_package) {
  const auto dtype = static_cast<DType>(GetParam());
  const std::string stem =
      std::string(RIDGE_SOURCE_DIR "/tests/data/codec/") + std::string(name_of(dtype));
  const std::vector<char> blocks = read_file(stem + ".blocks");
  const std::vector<char> expected = read_file(stem + ".f32");
  const auto elements = static_cast<int64_t>(expected.size() / sizeof(float));
  ASSERT_GT(elements, 0);
  ASSERT_EQ(bytes_of(dtype, elements), static_cast<int64_t>(blocks.size()));
  std::vector<float> values(static_cast<size_t>(elements));
  decode(dtype, reinterpret_cast<const std::byte*>(blocks.data()), elements, values.data());
  for (size_t i = 0; i < values.size(); ++i) {
    uint32_t want;
    std::memcpy(&want, expected.data() + 4 * i, sizeof want);
    ASSERT_EQ(std::bit_cast<uint32_t>(values[i]), want)
        << "element " << i << ": " << values[i] << " instead of " << std::bit_cast<float>(want);
  }
}

INSTANTIATE_TEST_SUITE_P(EveryDType, Golden, testing::Range(0, kDTypeCount), [](const auto& info) {
  return std::string(name_of(static_cast<DType>(info.param)));
});

TEST(Codec, every_f16_becomes_the_float_that_the_compiler_makes_of_it) {
  for (uint32_t i = 0; i <= 0xffff; ++i) {
    const auto bits = static_cast<uint16_t>(i);
    const auto want = static_cast<float>(std::bit_cast<_Float16>(bits));
    ASSERT_EQ(std::bit_cast<uint32_t>(f16_to_f32(bits)), std::bit_cast<uint32_t>(want)) << i;
  }
}

TEST(Codec, every_f16_survives_the_way_through_float) {
  for (uint32_t i = 0; i <= 0xffff; ++i) {
    const auto bits = static_cast<uint16_t>(i);
    const bool nan = (bits & 0x7fff) > 0x7c00;
    ASSERT_EQ(f32_to_f16(f16_to_f32(bits)), nan ? bits | 0x200 : bits) << i;
  }
}

void expect_f16_as_compiler(float value) {
  const auto want = std::bit_cast<uint16_t>(static_cast<_Float16>(value));
  ASSERT_EQ(f32_to_f16(value), want) << std::hexfloat << value;
}

TEST(Codec, rounds_to_f16_as_the_compiler_does_at_every_tie_and_beside_it) {
  // Between each f16 and the next lies a tie; the floats beside it round to either side.
  for (uint16_t bits = 0; bits < 0x7c00; ++bits) {
    const float low = f16_to_f32(bits);
    const float high = bits + 1 == 0x7c00 ? 65536.0f : f16_to_f32(static_cast<uint16_t>(bits + 1));
    const float tie = low + (high - low) / 2;
    for (float value : {low, tie, std::nextafterf(tie, 0.0f), std::nextafterf(tie, high)}) {
      expect_f16_as_compiler(value);
      expect_f16_as_compiler(-value);
    }
  }
}

TEST(Codec, rounds_random_and_special_floats_to_f16_as_the_compiler_does) {
  Rng rng(7);
  for (int i = 0; i < 2'000'000; ++i) {
    expect_f16_as_compiler(std::bit_cast<float>(static_cast<uint32_t>(rng.next())));
  }
  using Limits = std::numeric_limits<float>;
  for (float value : {0.0f, -0.0f, Limits::infinity(), -Limits::infinity(), Limits::quiet_NaN(),
                      Limits::max(), Limits::denorm_min(), Limits::min(), 65504.0f, 65519.996f,
                      65520.0f, 0x1.0p-25f, 0x1.000002p-25f, 0x1.ffcp-15f, 0x1.ffep-15f}) {
    expect_f16_as_compiler(value);
  }
}

TEST(Codec, rounds_to_bf16_to_the_nearest_and_ties_to_even) {
  const auto from_bits = [](uint32_t bits) { return f32_to_bf16(std::bit_cast<float>(bits)); };
  EXPECT_EQ(from_bits(0x3f800000), 0x3f80);
  EXPECT_EQ(from_bits(0x3f808000), 0x3f80);  // tie: even below
  EXPECT_EQ(from_bits(0x3f818000), 0x3f82);  // tie: even above
  EXPECT_EQ(from_bits(0x3f808001), 0x3f81);
  EXPECT_EQ(from_bits(0x3f817fff), 0x3f81);
  EXPECT_EQ(from_bits(0x7f7fffff), 0x7f80);  // overflow
  EXPECT_EQ(from_bits(0xff800000), 0xff80);
  EXPECT_EQ(from_bits(0x00000001), 0x0000);
  EXPECT_EQ(from_bits(0x80000000), 0x8000);
  EXPECT_TRUE(std::isnan(bf16_to_f32(from_bits(0x7f800001))));  // not rounded to infinity
  EXPECT_TRUE(std::isnan(bf16_to_f32(from_bits(0xffffffff))));
}

TEST(Codec, every_bf16_survives_the_way_through_float) {
  for (uint32_t i = 0; i <= 0xffff; ++i) {
    const auto bits = static_cast<uint16_t>(i);
    const bool nan = (bits & 0x7fff) > 0x7f80;
    ASSERT_EQ(std::bit_cast<uint32_t>(bf16_to_f32(bits)), i << 16);
    ASSERT_EQ(f32_to_bf16(bf16_to_f32(bits)), nan ? bits | 0x40 : bits) << i;
  }
}

TEST(Codec, random_floats_go_to_the_closest_bf16) {
  Rng rng(11);
  for (int i = 0; i < 200'000; ++i) {
    const auto value = std::bit_cast<float>(static_cast<uint32_t>(rng.next()));
    if (!(std::fabs(value) < 1e38f)) continue;
    const uint16_t bits = f32_to_bf16(value);
    const double error = std::fabs(static_cast<double>(bf16_to_f32(bits)) - value);
    for (int step : {-1, 1}) {
      const auto neighbour = bf16_to_f32(static_cast<uint16_t>(bits + step));
      if (std::isfinite(neighbour)) {
        ASSERT_LE(error, std::fabs(static_cast<double>(neighbour) - value)) << value;
      }
    }
  }
}

TEST(CodecDeathTest, half_a_block_is_our_own_bug) {
  std::vector<std::byte> block(18);
  std::vector<float> values(32);
  EXPECT_DEATH(decode(DType::q4_0, block.data(), 16, values.data()), "CHECK");
  EXPECT_DEATH(bytes_of(DType::q6_k, 255), "CHECK");
}

TEST(DType, numbers_and_names_go_both_ways) {
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    EXPECT_EQ(dtype_from_gguf_type(gguf_type_of(dtype)), dtype);
    EXPECT_FALSE(name_of(dtype).empty());
  }
  EXPECT_EQ(dtype_from_gguf_type(4), std::nullopt);
  EXPECT_EQ(dtype_from_gguf_type(31), std::nullopt);
  EXPECT_EQ(dtype_from_gguf_type(0xffffffff), std::nullopt);
}

TEST(DType, a_row_takes_whole_blocks) {
  EXPECT_EQ(bytes_of(DType::q4_1, 576), 18 * 20);
  EXPECT_EQ(bytes_of(DType::q6_k, 512), 2 * 210);
  EXPECT_EQ(bytes_of(DType::f32, 3), 12);
  EXPECT_TRUE(is_float(DType::bf16));
  EXPECT_FALSE(is_float(DType::q8_0));
}

}  // namespace
}  // namespace ridge
