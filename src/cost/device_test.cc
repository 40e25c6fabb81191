// SPDX-License-Identifier: Apache-2.0
#include "cost/device.h"

#include <gtest/gtest.h>

namespace ridge {
namespace {

// Round figures, chosen so that the floors below are exact by hand.
Device toy_device() {
  Device device;
  device.levels = {{"L1", Bytes(100), BytesPerSecond(1000)},
                   {"L2", Bytes(1900), BytesPerSecond(500)},
                   {"L3", Bytes(8000), BytesPerSecond(50)},
                   {"memory", Bytes(0), BytesPerSecond(20)}};
  return device;
}

TEST(Device, a_set_lives_in_the_first_level_that_holds_it) {
  const Device device = toy_device();
  EXPECT_EQ(home_level(device, Bytes(0)).name, "L1");
  EXPECT_EQ(home_level(device, Bytes(100)).name, "L1");
  EXPECT_EQ(home_level(device, Bytes(101)).name, "L2");
  EXPECT_EQ(home_level(device, Bytes(1901)).name, "L3");
  EXPECT_EQ(home_level(device, Bytes(8001)).name, "memory");
}

TEST(Device, a_set_that_fits_the_innermost_level_is_read_at_its_rate) {
  EXPECT_DOUBLE_EQ(read_floor(toy_device(), Bytes(50), Bytes(50)).value, 0.05);
  EXPECT_DOUBLE_EQ(read_floor(toy_device(), Bytes(50), Bytes(100)).value, 0.05);
  EXPECT_DOUBLE_EQ(read_floor(toy_device(), Bytes(50), Bytes(0)).value, 0.05);
}

TEST(Device, what_a_level_cannot_hold_crosses_the_next) {
  // 200 bytes: half cross L2 at 500 B/s (0.2 s), all leave L1 at 1000 B/s (0.2 s).
  EXPECT_DOUBLE_EQ(read_floor(toy_device(), Bytes(200), Bytes(200)).value, 0.2);
  // 4000 bytes: 2000 are held further in, 2000 cross L3 at 50 B/s.
  EXPECT_DOUBLE_EQ(read_floor(toy_device(), Bytes(4000), Bytes(4000)).value, 40);
  // 40000 bytes: the caches together hold 10000, 30000 cross memory at 20 B/s; L3 is crossed by
  // 38000 (760 s), which is less than 1500 s.
  EXPECT_DOUBLE_EQ(read_floor(toy_device(), Bytes(40000), Bytes(40000)).value, 1500);
  // 12500 bytes: 2500 cross memory (125 s), 10500 cross L3 (210 s): the slower crossing binds.
  EXPECT_DOUBLE_EQ(read_floor(toy_device(), Bytes(12500), Bytes(12500)).value, 210);
}

TEST(Device, a_part_of_a_huge_recurring_set_is_read_at_nearly_the_memory_rate) {
  EXPECT_NEAR(read_floor(toy_device(), Bytes(20), Bytes(1e12)).value, 1, 1e-7);
}

TEST(Device, more_recurring_bytes_are_never_read_faster) {
  const Device device = toy_device();
  Seconds before;
  for (double recurring = 1; recurring < 1e7; recurring *= 1.07) {
    const Seconds floor = read_floor(device, Bytes(1000), Bytes(recurring));
    EXPECT_GE(floor, before) << recurring;
    before = floor;
  }
}

TEST(Device, a_device_of_one_level_has_one_rate) {
  Device device;
  device.levels = {{"memory", Bytes(0), BytesPerSecond(10)}};
  EXPECT_DOUBLE_EQ(read_floor(device, Bytes(100), Bytes(100)).value, 10);
  EXPECT_EQ(home_level(device, Bytes(1e15)).name, "memory");
}

TEST(Device, a_measured_sweep_says_more_than_the_size_of_a_shared_cache) {
  Device device{.name = "toy",
                .levels = {{"L1", Bytes(100), BytesPerSecond(1000)},
                           {"L2", Bytes(10000), BytesPerSecond(100)},
                           {"memory", Bytes(0), BytesPerSecond(10)}}};
  EXPECT_DOUBLE_EQ(home_level(device, Bytes(5000)).read_rate.value, 100);
  device.sweeps = {{Bytes(1000), BytesPerSecond(80)}, {Bytes(4000), BytesPerSecond(20)}};
  // Smaller than any measured sweep: the levels still speak.
  EXPECT_DOUBLE_EQ(home_level(device, Bytes(999)).read_rate.value, 100);
  // Between two: the smaller set's rate, which is not too low.
  EXPECT_DOUBLE_EQ(home_level(device, Bytes(3999)).read_rate.value, 80);
  EXPECT_DOUBLE_EQ(read_floor(device, Bytes(800), Bytes(3999)).value, 10);
  // Larger than all: the largest one's, and the level keeps its name.
  EXPECT_EQ(home_level(device, Bytes(9000)).name, "L2");
  EXPECT_DOUBLE_EQ(read_floor(device, Bytes(800), Bytes(9000)).value, 40);
}

}  // namespace
}  // namespace ridge
