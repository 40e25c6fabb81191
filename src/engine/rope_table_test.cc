// SPDX-License-Identifier: Apache-2.0
#include "engine/rope_table.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace ridge {
namespace {

constexpr RopeSpec kPlain{.dims = 8, .base = 10000};

// The angle in long double, straight from the definition.
long double angle_of(int64_t position, int pair, const RopeSpec& spec, long double divisor = 1) {
  const long double exponent = -2.0L * pair / static_cast<long double>(spec.dims);
  return static_cast<long double>(position) / divisor *
         std::pow(static_cast<long double>(spec.base), exponent);
}

void expect_row(const RopeTable& table, int64_t row, int64_t position, const RopeSpec& spec,
                const std::vector<long double>& divisors) {
  for (int i = 0; i < static_cast<int>(table.pairs()); ++i) {
    const long double angle = angle_of(position, i, spec, divisors[static_cast<size_t>(i)]);
    // The angle in fp64 is off by a few 1e-16 of itself; then one rounding to fp32.
    const double tolerance = 6e-8 + static_cast<double>(angle) * 1e-15;
    EXPECT_NEAR(static_cast<double>(table.cos(row)[i]), static_cast<double>(std::cos(angle)),
                tolerance)
        << position << ", pair " << i;
    EXPECT_NEAR(static_cast<double>(table.sin(row)[i]), static_cast<double>(std::sin(angle)),
                tolerance)
        << position << ", pair " << i;
  }
}

TEST(RopeTable, position_zero_turns_nothing) {
  RopeTable table(kPlain, nullptr, 2);
  table.fill(1, 0);
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(table.cos(1)[i], 1);
    EXPECT_EQ(table.sin(1)[i], 0);
  }
}

TEST(RopeTable, a_late_position_is_as_exact_as_an_early_one) {
  RopeTable table(kPlain, nullptr, 1);
  EXPECT_EQ(table.pairs(), 4);
  for (const int64_t position : {1, 7, 4095, 131072, 1000000, 16777217}) {
    table.fill(0, position);
    expect_row(table, 0, position, kPlain, {1, 1, 1, 1});
  }
}

TEST(RopeTable, linear_scaling_divides_the_position) {
  RopeSpec spec = kPlain;
  spec.scaling = RopeScaling::linear;
  spec.factor = 8;
  RopeTable table(spec, nullptr, 1);
  table.fill(0, 1001);
  expect_row(table, 0, 1001, kPlain, {8, 8, 8, 8});
}

TEST(RopeTable, divisors_from_the_file_divide_each_pair_by_its_own) {
  const float divisors[] = {1, 2, 5.5f, 8};
  RopeTable table(kPlain, divisors, 1);
  table.fill(0, 333);
  expect_row(table, 0, 333, kPlain, {1, 2, 5.5L, 8});
}

TEST(RopeTable, rows_do_not_touch_one_another) {
  RopeTable table(kPlain, nullptr, 3);
  table.fill(0, 5);
  table.fill(2, 6);
  table.fill(1, 7);
  expect_row(table, 0, 5, kPlain, {1, 1, 1, 1});
  expect_row(table, 1, 7, kPlain, {1, 1, 1, 1});
  expect_row(table, 2, 6, kPlain, {1, 1, 1, 1});
}

}  // namespace
}  // namespace ridge
