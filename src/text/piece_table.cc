// SPDX-License-Identifier: Apache-2.0
#include "text/piece_table.h"

#include <algorithm>
#include <bit>
#include <functional>

#include "base/check.h"

namespace ridge {

void PieceTable::add(std::string_view piece, bool findable) {
  bytes_.append(piece);
  ends_.push_back(bytes_.size());
  findable_.push_back(findable && !piece.empty());
}

void PieceTable::build_index() {
  slots_.assign(std::bit_ceil(2 * ends_.size() + 1), -1);
  const size_t mask = slots_.size() - 1;
  for (TokenId id = 0; id < size(); ++id) {
    if (!findable_[id]) continue;
    const std::string_view mine = piece(id);
    longest_findable_ = std::max(longest_findable_, mine.size());
    size_t slot = std::hash<std::string_view>()(mine) & mask;
    while (slots_[slot] >= 0 && piece(slots_[slot]) != mine) slot = (slot + 1) & mask;
    if (slots_[slot] < 0) slots_[slot] = id;
  }
}

std::string_view PieceTable::piece(TokenId id) const {
  const size_t begin = id == 0 ? 0 : ends_[id - 1];
  return std::string_view(bytes_).substr(begin, ends_[id] - begin);
}

TokenId PieceTable::find(std::string_view bytes) const {
  if (bytes.empty() || bytes.size() > longest_findable_) return -1;
  const size_t mask = slots_.size() - 1;
  size_t slot = std::hash<std::string_view>()(bytes) & mask;
  while (slots_[slot] >= 0 && piece(slots_[slot]) != bytes) slot = (slot + 1) & mask;
  return slots_[slot];
}

void PairTable::reserve(size_t pairs) { slots_.resize(std::bit_ceil(2 * pairs + 1)); }

size_t PairTable::slot_of(uint64_t key) const {
  const size_t mask = slots_.size() - 1;
  // Fibonacci hashing: the high half of key * 2^64/phi depends on every bit of both ids.
  size_t slot = static_cast<size_t>((key * 0x9e3779b97f4a7c15ULL) >> 32) & mask;
  while (slots_[slot].key != key && slots_[slot].key != kEmpty) slot = (slot + 1) & mask;
  return slot;
}

void PairTable::add(TokenId left, TokenId right, Merge merge) {
  DCHECK(left >= 0 && right >= 0);
  const uint64_t key = uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
  Slot& slot = slots_[slot_of(key)];
  if (slot.key == kEmpty) slot = {key, merge};
}

PairTable::Merge PairTable::find(TokenId left, TokenId right) const {
  const uint64_t key = uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
  return slots_[slot_of(key)].merge;
}

}  // namespace ridge
