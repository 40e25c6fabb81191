// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "engine/machine.h"
#include "engine/machine_measure.h"

namespace ridge {
namespace {

ThreadRates rates_of(int threads, double l1, double l2, double memory) {
  ThreadRates rates;
  rates.threads = threads;
  rates.read_rate = {BytesPerSecond(l1), BytesPerSecond(l2), BytesPerSecond(memory)};
  rates.cache_copy_rate = BytesPerSecond(memory * 1.8);
  rates.memory_copy_rate = BytesPerSecond(memory * 0.9);
  rates.fp32_rate = FlopsPerSecond(100.0 * threads);
  rates.int8_rate = FlopsPerSecond(300.0 * threads);
  rates.read_curve = {{1000 * threads, BytesPerSecond(l1)}, {50000, BytesPerSecond(memory)}};
  return rates;
}

// Two private L1, one shared L2; memory saturates at four threads.
MachineProfile fake_profile() {
  MachineProfile profile;
  profile.cpu = "Toy CPU";
  profile.isa = Isa::avx2;
  profile.usable_cpus = 6;
  profile.caches = {{1, 1000, 6}, {2, 20000, 1}};
  profile.rates = {rates_of(1, 1000, 400, 50), rates_of(2, 2000, 800, 97),
                   rates_of(4, 4000, 1500, 99), rates_of(6, 6000, 1600, 98)};
  profile.date = "2026-11-30T10:00:00Z";
  profile.largest_set_bytes = 50000;
  return profile;
}

TEST(MachineProfile, decode_takes_the_fewest_threads_at_the_knee_of_the_memory_curve) {
  MachineProfile profile = fake_profile();
  EXPECT_EQ(profile.decode_threads(), 2);  // 97 of 99
  profile.rates[1].read_rate.back() = BytesPerSecond(95);
  EXPECT_EQ(profile.decode_threads(), 4);
}

TEST(MachineProfile, more_threads_that_read_slower_are_not_chosen) {
  MachineProfile profile = fake_profile();
  profile.rates[0].read_rate.back() = BytesPerSecond(120);
  EXPECT_EQ(profile.decode_threads(), 1);
}

TEST(MachineProfile, prefill_takes_the_usable_cores_and_not_their_hardware_threads) {
  MachineProfile profile = fake_profile();
  profile.cores = 3;
  EXPECT_EQ(profile.prefill_threads(), 3);
  profile.cores = 12;  // as a container may see them
  EXPECT_EQ(profile.prefill_threads(), 6);
  profile.cores = 0;
  EXPECT_EQ(profile.prefill_threads(), 6);
}

TEST(MachineProfile, a_device_counts_private_caches_per_thread_and_shared_ones_once) {
  const Device device = device_of(fake_profile(), 4, false);
  ASSERT_EQ(device.levels.size(), 3u);
  EXPECT_EQ(device.levels[0].name, "L1");
  EXPECT_EQ(device.levels[0].capacity, Bytes(4000));
  EXPECT_EQ(device.levels[1].capacity, Bytes(20000));
  EXPECT_EQ(device.levels[2].name, "memory");
  EXPECT_EQ(device.levels[0].read_rate, BytesPerSecond(4000));
  EXPECT_EQ(device.levels[2].read_rate, BytesPerSecond(99));
  EXPECT_EQ(device.matmul_rate, FlopsPerSecond(1200));
  EXPECT_EQ(device.attention_rate, FlopsPerSecond(400));
  EXPECT_EQ(device.matmul_arithmetic, "int8");
  EXPECT_EQ(device.source, "measured 2026-11-30, 4 threads, avx2");
}

TEST(MachineProfile, exact_arithmetic_has_the_fp32_peak) {
  const Device device = device_of(fake_profile(), 1, true);
  EXPECT_EQ(device.matmul_rate, FlopsPerSecond(100));
  EXPECT_EQ(device.matmul_arithmetic, "fp32");
  EXPECT_EQ(device.source, "measured 2026-11-30, 1 thread, avx2");
}

TEST(MachineProfile, a_device_of_more_threads_is_never_slower) {
  // Six threads were measured at 98 and four at 99: six can leave two idle.
  EXPECT_EQ(device_of(fake_profile(), 6, false).levels[2].read_rate, BytesPerSecond(99));
}

TEST(MachineProfile, a_thread_count_between_two_entries_gets_a_ceiling_not_the_entry_below) {
  const Device three = device_of(fake_profile(), 3, false);
  EXPECT_EQ(three.levels[0].read_rate, BytesPerSecond(3000));  // in proportion to two threads
  EXPECT_EQ(three.levels[2].read_rate, BytesPerSecond(99));    // what four were seen to reach
  EXPECT_EQ(three.attention_rate, FlopsPerSecond(300));
}

TEST(MachineProfile, neighbours_do_not_lower_what_each_thread_has_of_its_own) {
  MachineProfile profile = fake_profile();
  profile.cores = 3;
  profile.rates[2] = rates_of(4, 1100, 450, 60);
  profile.rates[2].int8_rate = profile.rates[2].fp32_rate = FlopsPerSecond(120);
  EXPECT_EQ(device_of(profile, 4, false).matmul_rate, FlopsPerSecond(600));  // two threads' best
  profile.measured_while_busy = true;
  const Device device = device_of(profile, 4, false);
  EXPECT_EQ(device.levels[0].read_rate, BytesPerSecond(4000));  // four private caches
  EXPECT_EQ(device.levels[1].read_rate, BytesPerSecond(800));   // shared: what was seen
  EXPECT_EQ(device.matmul_rate, FlopsPerSecond(900));           // three cores
  EXPECT_EQ(device.source, "measured 2026-11-30, 4 threads, avx2, while others were busy");
}

TEST(MachineProfile, an_inner_level_is_never_slower_than_an_outer_one) {
  MachineProfile profile = fake_profile();
  profile.rates[0].read_rate[0] = BytesPerSecond(30);  // held up in every try
  EXPECT_EQ(device_of(profile, 1, false).levels[0].read_rate, BytesPerSecond(400));
}

TEST(MachineProfile, merging_keeps_the_better_figure_of_each_kind) {
  const MachineProfile a = fake_profile();
  MachineProfile b = fake_profile();
  b.date = "2026-12-01T10:00:00Z";
  b.measured_while_busy = true;
  b.rates[1].read_rate = {BytesPerSecond(1), BytesPerSecond(900), BytesPerSecond(2)};
  b.rates[1].fp32_rate = FlopsPerSecond(7777);
  b.rates[1].read_curve = {{2000, BytesPerSecond(1)}, {3000, BytesPerSecond(5)}};
  for (const MachineProfile& merged : {merge_best(a, b), merge_best(b, a)}) {
    EXPECT_EQ(merged.rates[1].read_rate[0], BytesPerSecond(2000));
    EXPECT_EQ(merged.rates[1].read_rate[1], BytesPerSecond(900));
    EXPECT_EQ(merged.rates[1].read_rate[2], BytesPerSecond(97));
    EXPECT_EQ(merged.rates[1].fp32_rate, FlopsPerSecond(7777));
    EXPECT_EQ(merged.rates[1].int8_rate, FlopsPerSecond(600));
    ASSERT_EQ(merged.rates[1].read_curve.size(), 3u);
    EXPECT_EQ(merged.rates[1].read_curve[0].rate, BytesPerSecond(2000));
    EXPECT_EQ(merged.rates[1].read_curve[1].bytes, 3000);
    EXPECT_EQ(merged.date, b.date);
    EXPECT_FALSE(merged.measured_while_busy);
  }
}

TEST(MachineProfile, profiles_of_different_machines_do_not_mix) {
  const MachineProfile a = fake_profile();
  MachineProfile b = fake_profile();
  b.date = "2026-12-01T10:00:00Z";
  b.caches[1].bytes = 40000;
  b.rates[0] = rates_of(1, 5, 5, 5);
  EXPECT_EQ(merge_best(a, b).rates[0].read_rate[0], BytesPerSecond(5));
}

TEST(MachineProfile, memory_rates_count_as_such_only_well_beyond_the_last_cache) {
  MachineProfile profile = fake_profile();
  EXPECT_FALSE(profile.memory_beyond_caches());
  profile.largest_set_bytes = 80000;
  EXPECT_TRUE(profile.memory_beyond_caches());
}

const std::vector<ReadPoint> kCurve = {{500, BytesPerSecond(1000)}, {1000, BytesPerSecond(980)},
                                       {1600, BytesPerSecond(900)}, {4000, BytesPerSecond(300)},
                                       {8000, BytesPerSecond(310)}, {50000, BytesPerSecond(40)}};

TEST(LevelRate, is_the_best_of_the_sets_that_mostly_live_there) {
  EXPECT_EQ(level_rate(kCurve, 0, 1000, false), BytesPerSecond(1000));
  EXPECT_EQ(level_rate(kCurve, 9000, 0, true), BytesPerSecond(40));
}

TEST(LevelRate, lets_no_point_of_the_curve_beat_its_floor) {
  // 1600 bytes at 900: 600 of them crossed, so this level gave 337.5, more than the 310 seen later.
  EXPECT_EQ(level_rate(kCurve, 1000, 8000, false), BytesPerSecond(337.5));
}

TEST(LevelRate, is_the_largest_sets_where_no_set_goes_beyond_the_caches) {
  EXPECT_EQ(level_rate(kCurve, 60000, 0, true), BytesPerSecond(40));
  EXPECT_EQ(level_rate(kCurve, 40000, 0, true), BytesPerSecond(40));
  std::vector<ReadPoint> curve = kCurve;
  curve.push_back({30000, BytesPerSecond(45)});  // one try may have been held up
  EXPECT_EQ(level_rate(curve, 60000, 0, true), BytesPerSecond(45));
}

}  // namespace
}  // namespace ridge
