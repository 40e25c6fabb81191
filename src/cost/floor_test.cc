// SPDX-License-Identifier: Apache-2.0
#include "cost/floor.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/check.h"
#include "cost/work_of.h"
#include "program/lower.h"

namespace ridge {
namespace {

// Round numbers: 1 kB/s from memory, 10 kB/s from a cache of 100 B; 50 and 20 FLOP/s.
Device toy_device() {
  return {.name = "toy",
          .levels = {{"L2", Bytes(100), BytesPerSecond(10000)},
                     {"memory", Bytes(0), BytesPerSecond(1000)}},
          .matmul_rate = FlopsPerSecond(50),
          .attention_rate = FlopsPerSecond(20),
          .wire_rate = BytesPerSecond(8)};
}

TEST(FloorSeconds, the_highest_roof_binds_and_names_itself) {
  Floor floor = floor_seconds({.weight_bytes = Bytes(1000)}, toy_device(), Bytes(1e9));
  EXPECT_EQ(floor.roof, Roof::memory);
  EXPECT_NEAR(floor.seconds.value, 1, 1e-6);
  floor = floor_seconds({.matmul_flops = Flops(100), .weight_bytes = Bytes(1000)}, toy_device(),
                        Bytes(1e9));
  EXPECT_EQ(floor.roof, Roof::matmul);
  EXPECT_EQ(floor.seconds, Seconds(2));
  floor = floor_seconds({.matmul_flops = Flops(100), .attention_flops = Flops(60)}, toy_device(),
                        Bytes(1e9));
  EXPECT_EQ(floor.roof, Roof::attention);
  EXPECT_EQ(floor.seconds, Seconds(3));
}

TEST(FloorSeconds, every_kind_of_byte_counts) {
  const auto seconds = [](const Work& work) {
    return floor_seconds(work, toy_device(), Bytes(1e9)).seconds.value;
  };
  EXPECT_NEAR(seconds({.kv_read_bytes = Bytes(1000)}), 1, 1e-6);
  EXPECT_NEAR(seconds({.kv_write_bytes = Bytes(1000)}), 1, 1e-6);
  EXPECT_NEAR(seconds({.weight_bytes = Bytes(500), .kv_read_bytes = Bytes(500)}), 1, 1e-6);
  EXPECT_GT(seconds({.activation_bytes = Bytes(1000)}), 0.5);
}

TEST(FloorSeconds, what_recurs_in_the_cache_is_priced_at_the_caches_rate) {
  const Work work{.weight_bytes = Bytes(50)};
  EXPECT_DOUBLE_EQ(floor_seconds(work, toy_device(), Bytes(80)).seconds.value, 0.005);
  EXPECT_NEAR(floor_seconds(work, toy_device(), Bytes(1e9)).seconds.value, 0.05, 1e-6);
}

TEST(FloorSeconds, small_step_buffers_live_in_the_cache_whatever_the_weights_do) {
  EXPECT_DOUBLE_EQ(
      floor_seconds({.activation_bytes = Bytes(50)}, toy_device(), Bytes(1e9)).seconds.value,
      0.005);
}

TEST(FloorSeconds, what_crosses_the_wire_comes_on_top) {
  const Floor floor = floor_seconds({.weight_bytes = Bytes(1000), .wire_bytes = Bytes(16)},
                                    toy_device(), Bytes(1e9));
  EXPECT_NEAR(floor.seconds.value, 3, 1e-6);
  EXPECT_EQ(floor.roof, Roof::wire);
}

TEST(FloorSeconds, no_work_takes_no_time) {
  EXPECT_EQ(floor_seconds(Work(), toy_device(), Bytes(0)).seconds, Seconds(0));
  EXPECT_EQ(floor_seconds(Work(), toy_device(), Bytes(1e9)).seconds, Seconds(0));
}

TEST(FloorSeconds, of_a_program_is_the_sum_of_its_ops_each_against_its_own_roof) {
  ModelSpec spec;
  spec.n_layers = 2, spec.d_model = 64, spec.n_heads = 6, spec.n_kv_heads = 2, spec.head_dim = 32;
  spec.d_ff = 96, spec.vocab_size = 130, spec.rope.dims = 32;
  const Result<Program> program = lower(spec, {.tensor_parallel = 2});
  ASSERT_TRUE(program.has_value());
  const StepShape shape = decode_shape(2, 30);
  const Bytes recurring = work_of(*program, shape).streamed_bytes();
  Seconds sum;
  for (const Op& op : program->ops) {
    const Seconds seconds = floor_seconds(work_of(op, shape), toy_device(), recurring).seconds;
    EXPECT_TRUE(std::isfinite(seconds.value)) << op.stage;
    sum += seconds;
  }
  EXPECT_EQ(floor_seconds(*program, shape, toy_device()).seconds, sum);
}

TEST(FloorSecondsDeathTest, ranks_without_a_wire_are_our_bug) {
  Device device = toy_device();
  device.wire_rate = BytesPerSecond(0);
  EXPECT_DEATH(floor_seconds({.wire_bytes = Bytes(1)}, device, Bytes(1)), "wire_rate");
}

}  // namespace
}  // namespace ridge
