// SPDX-License-Identifier: Apache-2.0
#include "text/special_matcher.h"

#include <algorithm>
#include <tuple>

#include "base/check.h"

namespace ridge {
namespace {

uint8_t byte_of(const std::string& text, size_t at) { return static_cast<uint8_t>(text[at]); }

}  // namespace

void SpecialMatcher::add(std::string text, TokenId id, bool control) {
  CHECK(!text.empty() && text.size() <= kMaxSpecialBytes);
  patterns_.push_back({std::move(text), id, control});
}

void SpecialMatcher::build_index() {
  // Of equal texts a user-defined token comes before a control one, then the lower id: match_at
  // takes the first that is allowed.
  std::sort(patterns_.begin(), patterns_.end(), [](const Pattern& a, const Pattern& b) {
    return std::tie(a.text, a.control, a.id) < std::tie(b.text, b.control, b.id);
  });
  size_t at = 0;
  for (size_t byte = 0; byte < 256; ++byte) {
    first_[byte] = at;
    while (at < patterns_.size() && byte_of(patterns_[at].text, 0) == byte) ++at;
  }
  first_[256] = at;
}

SpecialMatcher::Match SpecialMatcher::match_at(std::string_view text, size_t at,
                                               size_t trusted_end) const {
  Match best;
  const uint8_t first = static_cast<uint8_t>(text[at]);
  size_t low = first_[first], high = first_[first + 1];
  // Invariant: patterns in [low, high) agree with the text on their first `depth` bytes.
  for (size_t depth = 1; low < high; ++depth) {
    bool found = false;
    for (; low < high && patterns_[low].text.size() == depth; ++low) {
      const Pattern& pattern = patterns_[low];
      if (found || (pattern.control && at + depth > trusted_end)) continue;
      best = {at, depth, pattern.id};
      found = true;
    }
    if (at + depth >= text.size()) break;
    const uint8_t byte = static_cast<uint8_t>(text[at + depth]);
    const auto begin = patterns_.begin() + low, end = patterns_.begin() + high;
    const auto from = std::partition_point(
        begin, end, [&](const Pattern& p) { return byte_of(p.text, depth) < byte; });
    const auto to = std::partition_point(
        from, end, [&](const Pattern& p) { return byte_of(p.text, depth) == byte; });
    low = static_cast<size_t>(from - patterns_.begin());
    high = static_cast<size_t>(to - patterns_.begin());
  }
  return best;
}

}  // namespace ridge
