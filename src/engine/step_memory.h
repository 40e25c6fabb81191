// The memory a step works in: the Program's buffers, quantised activations, attention scratch.
// Allocated once for the largest step; a step allocates nothing.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "base/aligned_buffer.h"
#include "kernels/matmul.h"
#include "program/op.h"

namespace ridge {

// Room for activations of up to `rows` rows of `cols` elements: normed floats and their int8 form.
class ActivationMemory {
 public:
  ActivationMemory() = default;
  ActivationMemory(int64_t rows, int64_t cols);
  static int64_t bytes(int64_t rows, int64_t cols);
  float* f32() { return memory_.as<float>(); }
  int8_t* q8() { return reinterpret_cast<int8_t*>(memory_.data() + q8_offset_); }
  float* scale() { return reinterpret_cast<float*>(memory_.data() + scale_offset_); }
  float* block_sum() { return reinterpret_cast<float*>(memory_.data() + sum_offset_); }

 private:
  size_t q8_offset_ = 0, scale_offset_ = 0, sum_offset_ = 0;
  AlignedBuffer memory_;
};

struct StepLimits {
  int64_t max_rows = 0;  // of one step
  int64_t max_sequences = 0;
  int64_t max_logit_rows = 0;
  int64_t max_context = 0;  // tokens of one sequence
  int threads = 1;
};

class StepMemory {
 public:
  StepMemory(const Program& program, const StepLimits& limits, int64_t attention_scratch_floats,
             int64_t partial_floats);

  // What that takes.
  static int64_t bytes(const Program& program, const StepLimits& limits,
                       int64_t attention_scratch_floats, int64_t partial_floats);

  float* buffer(Buffer b) { return buffers_[static_cast<size_t>(b)]; }
  int64_t width(Buffer b) const { return widths_[static_cast<size_t>(b)]; }
  ActivationMemory& shared_activations() { return shared_; }
  ActivationMemory& own_activations(int thread) { return own_[static_cast<size_t>(thread)]; }
  float* attention_scratch(int thread) {
    return scratch_.as<float>() + thread * scratch_floats_per_thread_;
  }
  float* partials() { return partials_.as<float>(); }

 private:
  std::vector<int64_t> widths_;
  std::vector<float*> buffers_;
  int64_t scratch_floats_per_thread_ = 0;
  AlignedBuffer buffer_memory_, scratch_, partials_;
  ActivationMemory shared_;
  std::vector<ActivationMemory> own_;
};

// Rows up to this many are normed and quantised by every thread for itself: cheaper than a barrier.
inline constexpr int64_t kOwnActivationRows = 2;

}  // namespace ridge
