// The merge loop that BPE and SPM share: the best adjacent pair first, of equals the leftmost,
// until no pair merges. O(n^2) for short words (no heap to keep), O(n log n) for long ones; both
// give the same symbols.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <queue>
#include <vector>

#include "text/tokenizer.h"

namespace ridge {

struct Symbol {
  uint32_t begin = 0;   // in the word, bytes
  uint32_t length = 0;  // bytes, > 0
  TokenId id = -1;      // -1: no token (SPM: a character outside the vocabulary)
};

struct MergeChoice {
  uint32_t priority = 0;  // lower merges first
  TokenId id = -1;        // -1: the pair does not merge
};

// Up to here the quadratic loop is faster than the heap (measured on English text).
inline constexpr size_t kShortWordSymbols = 32;

template <class Rule>  // MergeChoice operator()(const Symbol& left, const Symbol& right)
void merge_short(std::vector<Symbol>& symbols, const Rule& rule) {
  MergeChoice choices[kShortWordSymbols];
  for (size_t i = 0; i + 1 < symbols.size(); ++i) choices[i] = rule(symbols[i], symbols[i + 1]);
  while (symbols.size() > 1) {
    const size_t pairs = symbols.size() - 1;
    size_t best = pairs;
    for (size_t i = 0; i < pairs; ++i) {
      if (choices[i].id < 0) continue;
      if (best == pairs || choices[i].priority < choices[best].priority) best = i;
    }
    if (best == pairs) return;
    symbols[best].length += symbols[best + 1].length;
    symbols[best].id = choices[best].id;
    symbols.erase(symbols.begin() + best + 1);
    std::copy(choices + best + 1, choices + pairs, choices + best);
    if (best > 0) choices[best - 1] = rule(symbols[best - 1], symbols[best]);
    if (best + 1 < symbols.size()) choices[best] = rule(symbols[best], symbols[best + 1]);
  }
}

template <class Rule>
class LongMerge {
 public:
  LongMerge(std::vector<Symbol>& symbols, const Rule& rule) : symbols_(symbols), rule_(rule) {}

  void run() {
    const uint32_t count = static_cast<uint32_t>(symbols_.size());
    previous_.resize(count);
    next_.resize(count);
    for (uint32_t i = 0; i < count; ++i) {
      previous_[i] = i - 1;  // of 0: kNone
      next_[i] = i + 1 < count ? i + 1 : kNone;
    }
    for (uint32_t i = 0; i + 1 < count; ++i) offer(i, i + 1);
    while (!heap_.empty()) {
      const Entry entry = heap_.top();
      heap_.pop();
      apply(entry);
    }
    std::erase_if(symbols_, [](const Symbol& symbol) { return symbol.length == 0; });
  }

 private:
  static constexpr uint32_t kNone = ~uint32_t{0};
  struct Entry {
    uint32_t priority;
    uint32_t left, right;
    uint32_t length;  // of both symbols when offered: a later merge of either changes it
    TokenId id;
    bool operator<(const Entry& other) const {  // std::priority_queue gives the greatest
      return priority != other.priority ? priority > other.priority : left > other.left;
    }
  };

  void offer(uint32_t left, uint32_t right) {
    const MergeChoice choice = rule_(symbols_[left], symbols_[right]);
    if (choice.id < 0) return;
    heap_.push(
        {choice.priority, left, right, symbols_[left].length + symbols_[right].length, choice.id});
  }

  void apply(const Entry& entry) {
    Symbol& left = symbols_[entry.left];
    Symbol& right = symbols_[entry.right];
    // A dead symbol has length 0, and live ones only grow: equal sums mean that neither changed.
    if (left.length == 0 || right.length == 0) return;
    if (left.length + right.length != entry.length) return;
    left.length += right.length;
    left.id = entry.id;
    right.length = 0;
    const uint32_t after = next_[entry.right];
    next_[entry.left] = after;
    if (after != kNone) {
      previous_[after] = entry.left;
      offer(entry.left, after);
    }
    if (previous_[entry.left] != kNone) offer(previous_[entry.left], entry.left);
  }

  std::vector<Symbol>& symbols_;
  const Rule& rule_;
  std::vector<uint32_t> previous_, next_;
  std::priority_queue<Entry> heap_;
};

template <class Rule>
void merge_symbols(std::vector<Symbol>& symbols, const Rule& rule) {
  if (symbols.size() <= kShortWordSymbols) {
    merge_short(symbols, rule);
  } else {
    LongMerge<Rule>(symbols, rule).run();
  }
}

}  // namespace ridge
