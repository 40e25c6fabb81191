// SPDX-License-Identifier: Apache-2.0
#include "schedule/batch.h"

#include "base/check.h"

namespace ridge {

Batch::Batch(int64_t max_rows, int64_t max_sequences) {
  tokens_.reserve(static_cast<size_t>(max_rows));
  positions_.reserve(static_cast<size_t>(max_rows));
  sequences_.reserve(static_cast<size_t>(max_sequences));
  shape_.sequences.reserve(static_cast<size_t>(max_sequences));
}

void Batch::clear() {
  tokens_.clear();
  positions_.clear();
  sequences_.clear();
  shape_.sequences.clear();
  logit_rows_ = 0;
}

void Batch::add(const int32_t* tokens, int64_t new_rows, int64_t cached, int64_t logit_rows,
                const int32_t* pages) {
  CHECK(new_rows > 0 && cached >= 0 && logit_rows >= 0 && logit_rows <= new_rows);
  CHECK(tokens_.size() + static_cast<size_t>(new_rows) <= tokens_.capacity());
  CHECK(sequences_.size() < sequences_.capacity());
  sequences_.push_back({rows(), new_rows, cached, logit_rows, pages});
  shape_.sequences.push_back({new_rows, cached, logit_rows});
  tokens_.insert(tokens_.end(), tokens, tokens + new_rows);
  for (int64_t i = 0; i < new_rows; ++i) positions_.push_back(cached + i);
  logit_rows_ += logit_rows;
}

}  // namespace ridge
