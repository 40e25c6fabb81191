// SPDX-License-Identifier: Apache-2.0
#include "kv/page_pool.h"

#include "base/check.h"
#include "kv/layout.h"

namespace ridge {

PagePool::PagePool(int64_t n_pages) : owned_(static_cast<size_t>(n_pages), false) {
  free_.reserve(owned_.size());
  for (int64_t page = n_pages - 1; page >= 0; --page) free_.push_back(static_cast<int32_t>(page));
}

int32_t PagePool::take() {
  if (free_.empty()) return -1;
  const int32_t page = free_.back();
  free_.pop_back();
  CHECK(!owned_[static_cast<size_t>(page)]);
  owned_[static_cast<size_t>(page)] = true;
  return page;
}

void PagePool::give_back(int32_t page) {
  CHECK(page >= 0 && page < n_pages() && owned_[static_cast<size_t>(page)]);
  owned_[static_cast<size_t>(page)] = false;
  free_.push_back(page);
}

void PagePool::check_integrity() const {
  int64_t owned = 0;
  for (const bool is_owned : owned_) owned += is_owned;
  CHECK(owned + n_free() == n_pages());
  std::vector<bool> seen(owned_.size(), false);
  for (const int32_t page : free_) {
    CHECK(!seen[static_cast<size_t>(page)] && !owned_[static_cast<size_t>(page)]);
    seen[static_cast<size_t>(page)] = true;
  }
}

PageTable::PageTable(PagePool& pool, int64_t max_tokens) : pool_(pool) {
  pages_.reserve(static_cast<size_t>(kv_pages_for(max_tokens)));
}

bool PageTable::grow_to(int64_t tokens) {
  const int64_t missing = kv_pages_for(tokens) - size();
  if (missing > pool_.n_free()) return false;
  for (int64_t i = 0; i < missing; ++i) pages_.push_back(pool_.take());
  return true;
}

void PageTable::truncate(int64_t tokens) {
  for (const int64_t keep = kv_pages_for(tokens); size() > keep; pages_.pop_back())
    pool_.give_back(pages_.back());
}

}  // namespace ridge
