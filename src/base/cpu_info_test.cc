// SPDX-License-Identifier: Apache-2.0
#include "base/cpu_info.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

namespace ridge {
namespace {

TEST(CpuInfo, every_family_is_found_by_its_own_name) {
  const std::vector<Isa> all = {Isa::plain, Isa::avx2, Isa::avx512_vnni};
  for (Isa isa : all) {
    auto found = isa_named(name_of(isa), all);
    ASSERT_TRUE(found) << name_of(isa);
    EXPECT_EQ(*found, isa);
  }
}

TEST(CpuInfo, a_family_that_the_cpu_lacks_is_an_error_and_no_fallback) {
  auto found = isa_named("avx512_vnni", {Isa::plain, Isa::avx2});
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, ErrorCode::usage);
  EXPECT_EQ(found.error().message,
            "RIDGE_ISA=avx512_vnni asks for kernels that this CPU cannot run; it can run plain and "
            "avx2");
}

TEST(CpuInfo, an_unknown_family_is_quoted) {
  for (const char* name : {"sse9", "AVX2", "avx2 ", " "}) {
    auto found = isa_named(name, cpu_isas());
    ASSERT_FALSE(found) << name;
    EXPECT_EQ(found.error().message, "RIDGE_ISA=" + std::string(name) +
                                         " is not a kernel family; expected one of plain, avx2 "
                                         "and avx512_vnni");
  }
}

TEST(CpuInfo, the_list_is_what_cpu_has_says_and_starts_with_plain) {
  const std::vector<Isa> isas = cpu_isas();
  ASSERT_FALSE(isas.empty());
  EXPECT_EQ(isas.front(), Isa::plain);
  EXPECT_TRUE(std::is_sorted(isas.begin(), isas.end()));
  for (Isa isa : {Isa::plain, Isa::avx2, Isa::avx512_vnni}) {
    EXPECT_EQ(std::count(isas.begin(), isas.end(), isa), cpu_has(isa) ? 1 : 0) << name_of(isa);
  }
}

#if defined(__x86_64__)
TEST(CpuInfo, the_compiler_run_time_agrees_about_the_features) {
  __builtin_cpu_init();
  EXPECT_EQ(cpu_has(Isa::avx2), __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"));
  EXPECT_EQ(cpu_has(Isa::avx512_vnni),
            __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bw") &&
                __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq"));
}
#endif

TEST(CpuInfo, the_selection_follows_the_environment_or_is_the_fastest) {
  const auto selected = selected_isa();
  const char* forced = std::getenv("RIDGE_ISA");
  if (forced == nullptr || *forced == '\0') {
    ASSERT_TRUE(selected);
    EXPECT_EQ(*selected, cpu_isas().back());
  } else if (selected) {
    EXPECT_EQ(name_of(*selected), forced);
  } else {
    EXPECT_NE(selected.error().message.find(forced), std::string::npos);
  }
}

TEST(CpuInfo, the_cpu_has_a_name_and_this_process_may_use_one) {
  EXPECT_FALSE(cpu_name().empty());
  EXPECT_GE(usable_cpus(), 1);
}

}  // namespace
}  // namespace ridge
