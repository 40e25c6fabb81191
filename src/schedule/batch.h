// One step's rows, flat and ragged: tokens of all sequences behind one another, each at its own
// absolute position, never padded.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "program/step_shape.h"

namespace ridge {

struct BatchSequence {
  int64_t row_begin = 0;  // its rows are [row_begin, row_begin + new_rows)
  int64_t new_rows = 0;
  int64_t cached = 0;      // tokens in the cache before this step = position of the first row
  int64_t logit_rows = 0;  // of its last rows
  const int32_t* pages = nullptr;  // page table, long enough for cached + new_rows
};

class Batch {
 public:
  // Room for `max_rows` rows of `max_sequences` sequences: filling it allocates nothing.
  Batch(int64_t max_rows, int64_t max_sequences);

  void clear();
  // Appends a sequence's next rows. tokens: (new_rows)
  void add(const int32_t* tokens, int64_t new_rows, int64_t cached, int64_t logit_rows,
           const int32_t* pages);

  int64_t rows() const { return static_cast<int64_t>(tokens_.size()); }
  int64_t logit_rows() const { return logit_rows_; }
  const std::vector<int32_t>& tokens() const { return tokens_; }
  const std::vector<int64_t>& positions() const { return positions_; }
  const std::vector<BatchSequence>& sequences() const { return sequences_; }
  const StepShape& shape() const { return shape_; }

 private:
  std::vector<int32_t> tokens_;
  std::vector<int64_t> positions_;
  std::vector<BatchSequence> sequences_;
  StepShape shape_;
  int64_t logit_rows_ = 0;
};

}  // namespace ridge
