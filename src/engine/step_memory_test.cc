// SPDX-License-Identifier: Apache-2.0
#include "engine/step_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

namespace ridge {
namespace {

struct Region {
  std::string name;
  std::byte* begin;
  int64_t bytes;
};

Program some_widths() {
  Program program;
  const auto set = [&](Buffer b, int64_t width) { program.width[static_cast<size_t>(b)] = width; };
  set(Buffer::residual, 33), set(Buffer::q, 65), set(Buffer::k, 31), set(Buffer::v, 31);
  set(Buffer::attended, 65), set(Buffer::gate, 97), set(Buffer::up, 97), set(Buffer::logits, 301);
  return program;
}

constexpr StepLimits kLimits{
    .max_rows = 5, .max_sequences = 2, .max_logit_rows = 3, .max_context = 100, .threads = 3};
constexpr int64_t kScratch = 70, kPartials = 45, kWidest = 97;

void add(std::vector<Region>& regions, const std::string& name, void* begin, int64_t bytes) {
  regions.push_back({name, static_cast<std::byte*>(begin), bytes});
}

void add(std::vector<Region>& regions, const std::string& name, ActivationMemory& a, int64_t rows) {
  const int64_t n = rows * kWidest;
  const int64_t blocks = rows * ((kWidest + kActivationBlock - 1) / kActivationBlock);
  add(regions, name + " f32", a.f32(), n * 4);
  add(regions, name + " q8", a.q8(), n);
  add(regions, name + " scale", a.scale(), blocks * 4);
  add(regions, name + " sum", a.block_sum(), blocks * 4);
}

std::vector<Region> regions_of(StepMemory& memory) {
  std::vector<Region> regions;
  for (int b = 0; b < kBufferCount; ++b) {
    const auto buffer = static_cast<Buffer>(b);
    const int64_t rows = buffer == Buffer::logits ? kLimits.max_logit_rows : kLimits.max_rows;
    if (memory.width(buffer) > 0)
      add(regions, name_of(buffer), memory.buffer(buffer), memory.width(buffer) * rows * 4);
  }
  add(regions, "shared", memory.shared_activations(), kLimits.max_rows);
  for (int t = 0; t < kLimits.threads; ++t) {
    add(regions, "own", memory.own_activations(t), kOwnActivationRows);
    add(regions, "scratch", memory.attention_scratch(t), kScratch * 4);
  }
  add(regions, "partials", memory.partials(), kPartials * 4);
  return regions;
}

// Each region is filled to its end (the sanitizer sees a step outside) and must keep what it holds.
TEST(StepMemory, every_region_is_whole_and_none_overlaps_another) {
  StepMemory memory(some_widths(), kLimits, kScratch, kPartials);
  const auto regions = regions_of(memory);
  ASSERT_EQ(regions.size(), 8u + 4 + 3 * 5 + 1);
  for (size_t i = 0; i < regions.size(); ++i)
    std::memset(regions[i].begin, static_cast<int>(i + 1), static_cast<size_t>(regions[i].bytes));
  for (size_t i = 0; i < regions.size(); ++i)
    EXPECT_TRUE(std::all_of(regions[i].begin, regions[i].begin + regions[i].bytes,
                            [&](std::byte b) { return b == static_cast<std::byte>(i + 1); }))
        << regions[i].name;
}

TEST(StepMemory, buffers_begin_at_cache_lines_and_unused_ones_do_not_exist) {
  StepMemory memory(some_widths(), kLimits, kScratch, kPartials);
  for (int b = 0; b < kBufferCount; ++b)
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory.buffer(static_cast<Buffer>(b))) % 64, 0u) << b;
  EXPECT_EQ(memory.buffer(Buffer::branch), nullptr);
  EXPECT_EQ(memory.width(Buffer::branch), 0);
}

}  // namespace
}  // namespace ridge
