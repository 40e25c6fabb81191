// A batch as the arithmetic sees it: integers only. The scheduler fills it, the planner invents it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace ridge {

struct SequenceShape {
  int64_t new_rows = 0;    // tokens of this sequence in this step
  int64_t cached = 0;      // tokens in the cache before it
  int64_t logit_rows = 0;  // rows (the last ones) that want logits
};

// Which cached tokens one attention op touches for one sequence.
struct KvTokens {
  int64_t attended = 0;  // (query, key) pairs: what FLOPs are counted on
  int64_t unique = 0;    // keys read at least once: what bytes are counted on
};

struct StepShape {
  std::vector<SequenceShape> sequences;

  int64_t rows() const {
    int64_t n = 0;
    for (const SequenceShape& s : sequences) n += s.new_rows;
    return n;
  }
  int64_t logit_rows() const {
    int64_t n = 0;
    for (const SequenceShape& s : sequences) n += s.logit_rows;
    return n;
  }
};

// The query at position p sees keys in (p - window, p], window 0 = all: so `new_rows` queries after
// `cached` tokens see ...
inline KvTokens kv_tokens_of(const SequenceShape& s, int64_t window) {
  const int64_t end = s.cached + s.new_rows;
  KvTokens tokens;
  if (s.new_rows == 0) return tokens;
  if (window == 0 || window >= end) {
    tokens.attended = s.new_rows * s.cached + s.new_rows * (s.new_rows + 1) / 2;
    tokens.unique = end;
    return tokens;
  }
  // Queries at positions < window - 1 still see everything; the others see `window` keys each.
  const int64_t growing = std::clamp(window - 1 - s.cached, int64_t{0}, s.new_rows);
  tokens.attended =
      growing * s.cached + growing * (growing + 1) / 2 + (s.new_rows - growing) * window;
  tokens.unique = end - std::max<int64_t>(0, s.cached - window + 1);
  return tokens;
}

// One sequence that decodes one token with `context` tokens in all, its own included; n of them.
inline StepShape decode_shape(int64_t n_sequences, int64_t context) {
  return {std::vector<SequenceShape>(static_cast<size_t>(n_sequences), {1, context - 1, 1})};
}

}  // namespace ridge
