// The bytes each token stands for, and the way back from bytes to a token. Of tokens with equal
// bytes the lowest id is found.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace ridge {

class PieceTable {
 public:
  // Appends the piece of the next id. `findable`: find() may return it (never if empty).
  void add(std::string_view piece, bool findable);
  // Call once, after the last add().
  void build_index();

  int64_t size() const { return static_cast<int64_t>(ends_.size()); }
  std::string_view piece(TokenId id) const;  // id in [0, size)
  // -1 if no findable piece has exactly these bytes.
  TokenId find(std::string_view bytes) const;
  size_t longest_findable() const { return longest_findable_; }

 private:
  std::string bytes_;
  std::vector<size_t> ends_;
  std::vector<bool> findable_;
  std::vector<TokenId> slots_;  // open addressing, linear probing, at most half full
  size_t longest_findable_ = 0;
};

// Rank and result of each pair of tokens that may merge.
class PairTable {
 public:
  struct Merge {
    uint32_t rank = 0;
    TokenId result = -1;  // -1: the pair does not merge
  };
  void reserve(size_t pairs);  // call once, before the first add()
  // The first rank given to a pair stays.
  void add(TokenId left, TokenId right, Merge merge);
  Merge find(TokenId left, TokenId right) const;

 private:
  struct Slot {
    uint64_t key = kEmpty;
    Merge merge;
  };
  static constexpr uint64_t kEmpty = ~uint64_t{0};
  size_t slot_of(uint64_t key) const;
  std::vector<Slot> slots_;
};

}  // namespace ridge
