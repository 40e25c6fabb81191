// SPDX-License-Identifier: Apache-2.0
#include "engine/step_memory.h"

#include <algorithm>
#include <cstring>

namespace ridge {

namespace {

// Two cache lines: neighbours' writes never meet.
constexpr int64_t kAlignFloats = 32;

int64_t align_floats(int64_t n) { return (n + kAlignFloats - 1) / kAlignFloats * kAlignFloats; }

}  // namespace

ActivationMemory::ActivationMemory(int64_t rows, int64_t cols) {
  const auto n = static_cast<size_t>(align_floats(rows * cols));
  const auto blocks =
      static_cast<size_t>(align_floats(rows * ((cols + kActivationBlock - 1) / kActivationBlock)));
  q8_offset_ = n * sizeof(float);
  scale_offset_ = q8_offset_ + n;
  sum_offset_ = scale_offset_ + blocks * sizeof(float);
  memory_ = AlignedBuffer(sum_offset_ + blocks * sizeof(float));
}

StepMemory::StepMemory(const Program& program, const StepLimits& limits,
                       int64_t attention_scratch_floats, int64_t partial_floats)
    : limits_(limits), widths_(program.width), buffers_(kBufferCount, nullptr) {
  int64_t floats = 0, widest = 0;
  std::vector<int64_t> offsets(kBufferCount, 0);
  for (size_t b = 0; b < kBufferCount; ++b) {
    const bool is_logits = b == static_cast<size_t>(Buffer::logits);
    offsets[b] = floats;
    floats += align_floats(widths_[b] * (is_logits ? limits.max_logit_rows : limits.max_rows));
    if (!is_logits) widest = std::max(widest, widths_[b]);
  }
  buffer_memory_ = AlignedBuffer(static_cast<size_t>(floats) * sizeof(float));
  // The first step must be as fast as the tenth: pages are touched here.
  std::memset(buffer_memory_.data(), 0, buffer_memory_.size());
  for (size_t b = 0; b < kBufferCount; ++b)
    if (widths_[b] > 0) buffers_[b] = buffer_memory_.as<float>() + offsets[b];

  shared_ = ActivationMemory(limits.max_rows, widest);
  for (int i = 0; i < limits.threads; ++i) own_.emplace_back(kOwnActivationRows, widest);
  scratch_floats_per_thread_ = align_floats(attention_scratch_floats);
  scratch_ = AlignedBuffer(static_cast<size_t>(scratch_floats_per_thread_ * limits.threads) *
                           sizeof(float));
  partials_ = AlignedBuffer(static_cast<size_t>(partial_floats) * sizeof(float));
}

}  // namespace ridge
