// Finds tokens that are matched in the raw text before any other tokenising: user-defined ones
// everywhere, control ones only where the caller trusts the text. Leftmost first, then longest.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace ridge {

// The longest text of a token that is matched as a whole: bounds the work per byte of input.
inline constexpr size_t kMaxSpecialBytes = 1024;

class SpecialMatcher {
 public:
  // `text`: 1 to kMaxSpecialBytes bytes.
  void add(std::string text, TokenId id, bool control);
  // Call once, after the last add().
  void build_index();

  struct Match {
    size_t begin = 0, length = 0;
    TokenId id = -1;
  };
  // The longest match that begins at text[at]; control tokens only if they end at or before
  // `trusted_end`. id -1 if there is none.
  Match match_at(std::string_view text, size_t at, size_t trusted_end) const;
  bool may_begin_with(char byte) const {
    return first_[static_cast<unsigned char>(byte)] != first_[static_cast<unsigned char>(byte) + 1];
  }

 private:
  struct Pattern {
    std::string text;
    TokenId id;
    bool control;
  };
  std::vector<Pattern> patterns_;  // sorted by text
  size_t first_[257] = {};         // patterns that begin with byte b: [first_[b], first_[b + 1])
};

}  // namespace ridge
