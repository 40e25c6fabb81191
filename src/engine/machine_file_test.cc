// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "engine/machine.h"
#include "engine/machine_load.h"
#include "engine/machine_measure.h"
#include "engine/machine_topology.h"

namespace ridge {
namespace {

// A cache folder of the test's own.
class MachineFile : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "ridge_machine_XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
    if (const char* before = std::getenv("XDG_CACHE_HOME")) before_ = before;
    setenv("XDG_CACHE_HOME", folder_.c_str(), 1);
  }
  void TearDown() override {
    if (before_.empty()) {
      unsetenv("XDG_CACHE_HOME");
    } else {
      setenv("XDG_CACHE_HOME", before_.c_str(), 1);
    }
    std::filesystem::remove_all(folder_);
  }

  // Of this machine, so that the file is not foreign.
  static MachineProfile profile() {
    MachineProfile profile;
    profile.cpu = cpu_name();
    profile.isa = Isa::plain;
    profile.usable_cpus = usable_cpus();
    profile.packages = 1;
    profile.cores = 2;
    profile.numa_nodes = 3;
    profile.memory_bytes = 4'000'000'000'000;
    profile.caches = {{1, 49152, 2}, {2, 2097152, 1}};
    for (int threads = 1;; threads = profile.usable_cpus) {
      ThreadRates rates;
      rates.threads = threads;
      rates.read_rate = {BytesPerSecond(1.25e11), BytesPerSecond(1e11 / 3), BytesPerSecond(2e10)};
      rates.cache_copy_rate = BytesPerSecond(3e10);
      rates.memory_copy_rate = BytesPerSecond(1.5e10);
      rates.fp32_rate = FlopsPerSecond(1e11);
      rates.int8_rate = FlopsPerSecond(3e11);
      rates.read_curve = {{16384, BytesPerSecond(1.25e11)}, {1 << 30, BytesPerSecond(2e10)}};
      profile.rates.push_back(rates);
      if (threads == profile.usable_cpus) break;
    }
    profile.date = "2026-11-30T10:00:00Z";
    profile.measured_while_busy = true;
    profile.largest_set_bytes = 1 << 30;
    return profile;
  }

  static std::string file_name(int cpus) { return fmt::format("machine-plain-{}cpus.json", cpus); }
  static std::string written() {
    std::ifstream file(machine_cache_path(Isa::plain));
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
  }
  static void write(const std::string& text) {
    std::filesystem::create_directories(
        std::filesystem::path(machine_cache_path(Isa::plain)).parent_path());
    std::ofstream(machine_cache_path(Isa::plain)) << text;
  }
  // The saved profile with one thing replaced.
  static void write_with(const std::string& from, const std::string& to) {
    ASSERT_TRUE(save_machine(profile()));
    std::string text = written();
    const size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    write(text.replace(at, from.size(), to));
  }

  std::string folder_, before_;
};

TEST_F(MachineFile, what_is_saved_is_loaded_again_to_the_last_bit) {
  ASSERT_TRUE(save_machine(profile()));
  const auto loaded = load_machine(Isa::plain);
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_EQ(machine_json(*loaded), machine_json(profile()));
  EXPECT_EQ(loaded->rates[0].read_rate[1], BytesPerSecond(1e11 / 3));
  EXPECT_EQ(loaded->memory_bytes, 4'000'000'000'000);
  EXPECT_TRUE(loaded->measured_while_busy);
}

TEST_F(MachineFile, nothing_but_the_profile_is_left_in_the_folder) {
  ASSERT_TRUE(save_machine(profile()));
  ASSERT_TRUE(save_machine(profile()));
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder_ + "/ridge")) {
    EXPECT_EQ(entry.path().filename(), file_name(usable_cpus()));
    ++files;
  }
  EXPECT_EQ(files, 1);
}

TEST_F(MachineFile, a_process_held_to_one_cpu_has_a_file_of_its_own) {
  if (usable_cpus() < 2) GTEST_SKIP() << "there is only one CPU";
  ASSERT_TRUE(save_machine(profile()));
  const std::string whole = written();
  cpu_set_t all, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof(all), &all), 0);
  CPU_ZERO(&one);
  for (size_t cpu = 0; CPU_COUNT(&one) == 0; ++cpu) {
    if (CPU_ISSET(cpu, &all)) CPU_SET(cpu, &one);
  }
  ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
  EXPECT_THAT(machine_cache_path(Isa::plain), testing::EndsWith(file_name(1)));
  EXPECT_FALSE(load_machine(Isa::plain));
  EXPECT_TRUE(save_machine(profile()));
  EXPECT_TRUE(load_machine(Isa::plain));
  ASSERT_EQ(sched_setaffinity(0, sizeof(all), &all), 0);
  EXPECT_EQ(written(), whole);
}

TEST_F(MachineFile, a_missing_file_is_an_error_that_names_it) {
  const auto loaded = load_machine(Isa::plain);
  ASSERT_FALSE(loaded);
  EXPECT_THAT(loaded.error().message,
              testing::HasSubstr(file_name(usable_cpus()) + " does not exist"));
}

TEST_F(MachineFile, a_damaged_file_counts_as_missing) {
  ASSERT_TRUE(save_machine(profile()));
  const std::string whole = written();
  for (size_t length = 0; length < whole.size() - 2; length += 37) {
    write(whole.substr(0, length));
    EXPECT_FALSE(load_machine(Isa::plain)) << length;
  }
  for (const char* text : {"[]", "null", "{}", "42", "\"x\"", "\xff\xfe", "{\"format\": 1}"}) {
    write(text);
    EXPECT_FALSE(load_machine(Isa::plain)) << text;
  }
  write(std::string(2 << 20, '['));
  EXPECT_FALSE(load_machine(Isa::plain));
}

TEST_F(MachineFile, a_foreign_file_counts_as_missing) {
  write_with("\"format\": 2", "\"format\": 1");
  EXPECT_FALSE(load_machine(Isa::plain));
  write_with(cpu_name(), "Another CPU");
  EXPECT_FALSE(load_machine(Isa::plain));
  write_with("\"isa\": \"plain\"", "\"isa\": \"avx2\"");
  EXPECT_FALSE(load_machine(Isa::plain));
  write_with("\"usable_cpus\": ", "\"usable_cpus\": 9");
  EXPECT_FALSE(load_machine(Isa::plain));
}

TEST_F(MachineFile, impossible_figures_are_not_believed) {
  for (const char* rate : {"0.0", "-1.0", "1e999", "null", "\"fast\""}) {
    write_with("15000000000.0", rate);
    EXPECT_FALSE(load_machine(Isa::plain)) << rate;
  }
  write_with("\"threads\": 1", "\"threads\": 0");
  EXPECT_FALSE(load_machine(Isa::plain));
  write_with("\"instances\": 2", "\"instances\": 0");
  EXPECT_FALSE(load_machine(Isa::plain));
  write_with("125000000000.0,", "");  // one level too few
  EXPECT_FALSE(load_machine(Isa::plain));
}

TEST_F(MachineFile, a_folder_in_its_place_is_an_error) {
  std::filesystem::create_directories(machine_cache_path(Isa::plain));
  EXPECT_FALSE(load_machine(Isa::plain));
  EXPECT_FALSE(save_machine(profile()));
}

TEST_F(MachineFile, a_cache_folder_that_cannot_be_made_is_an_error_that_names_it) {
  write("in the way");
  setenv("XDG_CACHE_HOME", machine_cache_path(Isa::plain).c_str(), 1);
  const Status saved = save_machine(profile());
  ASSERT_FALSE(saved);
  EXPECT_THAT(saved.error().message, testing::HasSubstr(file_name(usable_cpus()) + "/ridge"));
}

TEST_F(MachineFile, a_relative_cache_home_is_ignored) {
  setenv("XDG_CACHE_HOME", "relative", 1);
  const std::string path = machine_cache_path(Isa::avx2);
  EXPECT_TRUE(path.empty() || path.front() == '/') << path;
}

TEST_F(MachineFile, a_saved_profile_is_taken_without_measuring) {
  ASSERT_TRUE(save_machine(profile()));
  std::string warning;
  const MachineProfile found = machine_profile(
      Isa::plain, false, [](const std::string&, double) { FAIL() << "measured"; }, &warning);
  EXPECT_EQ(found.date, "2026-11-30T10:00:00Z");
  EXPECT_EQ(warning, "");
}

TEST(MachineMeasure, a_quick_measurement_gives_rates_that_can_be) {
  MeasureLimits limits;
  limits.set_bytes_max = 32 << 20;
  limits.try_seconds = Seconds(0);
  for (Isa isa : cpu_isas()) {
    double told = -1;
    const MachineProfile profile = measure_machine(isa, limits, [&](const std::string&, double x) {
      EXPECT_GE(x, told);
      told = x;
    });
    EXPECT_EQ(told, 1);
    ASSERT_FALSE(profile.rates.empty());
    EXPECT_EQ(profile.rates.front().threads, 1);
    EXPECT_EQ(profile.rates.back().threads, profile.usable_cpus);
    for (const ThreadRates& rates : profile.rates) {
      ASSERT_EQ(rates.read_rate.size(), profile.caches.size() + 1);
      EXPECT_GE(rates.read_rate.front().value, 0.5 * rates.read_rate.back().value);
      EXPECT_GT(rates.read_rate.back().value, 1e6);
      EXPECT_GT(rates.cache_copy_rate.value, 1e6);
      EXPECT_GT(rates.memory_copy_rate.value, 1e6);
      EXPECT_GT(rates.fp32_rate.value, 1e6);
      EXPECT_GT(rates.int8_rate.value, 1e6);
    }
  }
}

TEST(MachineMeasure, no_point_of_the_curve_beats_the_floor_of_its_device) {
  MeasureLimits limits;
  limits.set_bytes_max = 64 << 20;
  limits.try_seconds = Seconds(0);
  const MachineProfile profile = measure_machine(cpu_isas().back(), limits, {});
  for (const ThreadRates& rates : profile.rates) {
    const Device device = device_of(profile, rates.threads, false);
    for (const ReadPoint& point : rates.read_curve) {
      const Bytes bytes(static_cast<double>(point.bytes));
      EXPECT_GE((bytes / point.rate).value, read_floor(device, bytes, bytes).value * (1 - 1e-9))
          << point.bytes << " bytes, " << rates.threads << " threads";
    }
  }
}

TEST(Topology, caches_are_known_and_ordered_or_absent) {
  const Topology topology = read_topology();
  int level = 0;
  for (const CacheFacts& cache : topology.caches) {
    EXPECT_GT(cache.level, level);
    EXPECT_GT(cache.bytes, 0);
    EXPECT_GE(cache.instances, 1);
    level = cache.level;
  }
}

TEST(Topology, every_usable_cpu_is_taken_once_or_none_is_known) {
  std::vector<int> cpus = read_topology().cpus;
  if (cpus.empty()) GTEST_SKIP() << "hwloc sees nothing here";
  EXPECT_EQ(static_cast<int>(cpus.size()), usable_cpus());
  std::sort(cpus.begin(), cpus.end());
  EXPECT_EQ(std::adjacent_find(cpus.begin(), cpus.end()), cpus.end());
}

TEST(MachineMeasure, the_caller_may_run_on_as_many_cpus_afterwards) {
  MeasureLimits limits;
  limits.set_bytes_max = 32 << 20;
  limits.try_seconds = Seconds(0);
  limits.rounds_min = 1;
  const int before = usable_cpus();
  measure_machine(Isa::plain, limits, {});
  EXPECT_EQ(usable_cpus(), before);
}

TEST(MachineLoad, free_memory_is_a_number_of_bytes) {
  EXPECT_GE(available_memory(), 0);
  EXPECT_LT(available_memory(), int64_t{1} << 50);
}

}  // namespace
}  // namespace ridge
