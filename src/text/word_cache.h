// Remembers the ids of short words within one encode() call: text repeats its words. Bounded, and
// exact: a word is compared byte by byte.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace ridge {

class WordCache {
 public:
  // A short text gets no cache: clearing one would cost more than it saves.
  explicit WordCache(size_t text_bytes) : entries_(text_bytes < kMinTextBytes ? 0 : kEntries) {}

  // Appends the word's ids to `out` and returns true, if it is remembered.
  bool recall(std::string_view word, std::vector<TokenId>& out) const {
    if (entries_.empty() || word.size() > kMaxWordBytes) return false;
    const Entry& entry = entries_[slot(word)];
    if (entry.length != word.size()) return false;
    if (std::memcmp(entry.word, word.data(), word.size()) != 0) return false;
    out.insert(out.end(), entry.ids, entry.ids + entry.count);
    return true;
  }
  void remember(std::string_view word, std::span<const TokenId> ids) {
    if (entries_.empty() || word.empty()) return;
    if (word.size() > kMaxWordBytes || ids.size() > kMaxIds) return;
    Entry& entry = entries_[slot(word)];
    entry.length = static_cast<uint8_t>(word.size());
    entry.count = static_cast<uint8_t>(ids.size());
    std::memcpy(entry.word, word.data(), word.size());
    std::copy(ids.begin(), ids.end(), entry.ids);
  }

 private:
  static constexpr size_t kMinTextBytes = 4096;
  static constexpr size_t kEntries = 8192;
  static constexpr size_t kMaxWordBytes = 30;
  static constexpr size_t kMaxIds = 8;
  struct Entry {  // 64 bytes, a cache line
    uint8_t length = 0;
    uint8_t count = 0;
    char word[kMaxWordBytes];
    TokenId ids[kMaxIds];
  };
  static size_t slot(std::string_view word) {
    return std::hash<std::string_view>()(word) % kEntries;
  }
  std::vector<Entry> entries_;
};

}  // namespace ridge
