// Who owns which page of the KV cache: integers only, no memory. A page is free or owned by exactly
// one table; handing pages out and taking them back never allocates.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace ridge {

class PagePool {
 public:
  explicit PagePool(int64_t n_pages);

  int64_t n_pages() const { return static_cast<int64_t>(owned_.size()); }
  int64_t n_free() const { return static_cast<int64_t>(free_.size()); }
  // The free page with the lowest number, or -1 if there is none.
  int32_t take();
  void give_back(int32_t page);
  // free + owned == all, no page twice.
  void check_integrity() const;

 private:
  std::vector<int32_t> free_;  // descending: the back is the lowest when nothing was given back
  std::vector<bool> owned_;
};

// The pages of one sequence, in token order.
class PageTable {
 public:
  // At most `max_tokens` tokens: reserves what the table can need.
  PageTable(PagePool& pool, int64_t max_tokens);
  ~PageTable() { truncate(0); }
  PageTable(const PageTable&) = delete;
  PageTable& operator=(const PageTable&) = delete;

  // Owns pages for `tokens` tokens afterwards; false (and nothing changed) if the pool lacks them.
  bool grow_to(int64_t tokens);
  // Gives back the pages that hold no token below `tokens`.
  void truncate(int64_t tokens);
  const int32_t* data() const { return pages_.data(); }
  int64_t size() const { return static_cast<int64_t>(pages_.size()); }

 private:
  PagePool& pool_;
  std::vector<int32_t> pages_;
};

}  // namespace ridge
