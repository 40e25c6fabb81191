// SPDX-License-Identifier: Apache-2.0
#include "engine/step_memory.h"

#include <algorithm>
#include <cstring>

namespace ridge {

namespace {

// Two cache lines: neighbours' writes never meet.
constexpr int64_t kAlignFloats = 32;

int64_t align_floats(int64_t n) { return (n + kAlignFloats - 1) / kAlignFloats * kAlignFloats; }

int64_t floats_of(const Program& program, const StepLimits& limits, size_t buffer) {
  const bool is_logits = buffer == static_cast<size_t>(Buffer::logits);
  return align_floats(program.width[buffer] *
                      (is_logits ? limits.max_logit_rows : limits.max_rows));
}

// The widest input that a product may have.
int64_t widest_input(const Program& program) {
  int64_t widest = 0;
  for (size_t b = 0; b < kBufferCount; ++b)
    if (b != static_cast<size_t>(Buffer::logits)) widest = std::max(widest, program.width[b]);
  return widest;
}

// The head takes two rows for each row of logits.
int64_t shared_rows(const StepLimits& limits) {
  return std::max(limits.max_rows, 2 * limits.max_logit_rows);
}

struct ActivationSizes {
  int64_t q8_offset, scale_offset, sum_offset, total;  // bytes
};

ActivationSizes activation_sizes(int64_t rows, int64_t cols) {
  constexpr auto kFloatBytes = static_cast<int64_t>(sizeof(float));
  const int64_t n = align_floats(rows * cols);
  const int64_t blocks = align_floats(rows * ((cols + kActivationBlock - 1) / kActivationBlock));
  ActivationSizes sizes{};
  sizes.q8_offset = n * kFloatBytes;
  sizes.scale_offset = sizes.q8_offset + n;
  sizes.sum_offset = sizes.scale_offset + blocks * kFloatBytes;
  sizes.total = sizes.sum_offset + blocks * kFloatBytes;
  return sizes;
}

}  // namespace

ActivationMemory::ActivationMemory(int64_t rows, int64_t cols) {
  const ActivationSizes sizes = activation_sizes(rows, cols);
  q8_offset_ = static_cast<size_t>(sizes.q8_offset);
  scale_offset_ = static_cast<size_t>(sizes.scale_offset);
  sum_offset_ = static_cast<size_t>(sizes.sum_offset);
  memory_ = AlignedBuffer(static_cast<size_t>(sizes.total));
}

int64_t ActivationMemory::bytes(int64_t rows, int64_t cols) {
  return activation_sizes(rows, cols).total;
}

int64_t StepMemory::bytes(const Program& program, const StepLimits& limits,
                          int64_t attention_scratch_floats, int64_t partial_floats) {
  int64_t floats = partial_floats + limits.threads * align_floats(attention_scratch_floats);
  for (size_t b = 0; b < kBufferCount; ++b) floats += floats_of(program, limits, b);
  const int64_t widest = widest_input(program);
  return floats * static_cast<int64_t>(sizeof(float)) +
         ActivationMemory::bytes(shared_rows(limits), widest) +
         limits.threads * ActivationMemory::bytes(2 * kOwnActivationRows, widest);
}

StepMemory::StepMemory(const Program& program, const StepLimits& limits,
                       int64_t attention_scratch_floats, int64_t partial_floats)
    : widths_(program.width), buffers_(kBufferCount, nullptr) {
  int64_t floats = 0;
  std::vector<int64_t> offsets(kBufferCount, 0);
  for (size_t b = 0; b < kBufferCount; ++b) {
    offsets[b] = floats;
    floats += floats_of(program, limits, b);
  }
  buffer_memory_ = AlignedBuffer(static_cast<size_t>(floats) * sizeof(float));
  // The first step must be as fast as the tenth: the pages of the buffers are touched here.
  std::memset(buffer_memory_.data(), 0, buffer_memory_.size());
  for (size_t b = 0; b < kBufferCount; ++b)
    if (widths_[b] > 0) buffers_[b] = buffer_memory_.as<float>() + offsets[b];

  const int64_t widest = widest_input(program);
  shared_ = ActivationMemory(shared_rows(limits), widest);
  for (int i = 0; i < limits.threads; ++i) own_.emplace_back(2 * kOwnActivationRows, widest);
  scratch_floats_per_thread_ = align_floats(attention_scratch_floats);
  scratch_ = AlignedBuffer(static_cast<size_t>(scratch_floats_per_thread_ * limits.threads) *
                           sizeof(float));
  partials_ = AlignedBuffer(static_cast<size_t>(partial_floats) * sizeof(float));
}

}  // namespace ridge
