// The rule is "the earliest place where a stop string begins; the shortest one there", whatever the
// chunking: a place is decided only when no earlier place can still become a match.
// SPDX-License-Identifier: Apache-2.0
#include "text/stop_filter.h"

#include <algorithm>
#include <utility>

namespace ridge {
namespace {

enum class At { nothing, maybe, match };

// What `text` begins with: a whole stop string (the shortest goes to `found`), or only a beginning.
At look_at(std::string_view text, const std::vector<std::string>& stops, std::string_view& found) {
  At best = At::nothing;
  for (const std::string& stop : stops) {  // shortest first
    if (text.starts_with(stop)) {
      found = stop;
      return At::match;
    }
    if (text.size() < stop.size() && std::string_view(stop).starts_with(text)) best = At::maybe;
  }
  return best;
}

}  // namespace

StopFilter::StopFilter(std::vector<std::string> stops) : stops_(std::move(stops)) {
  std::erase_if(stops_, [](const std::string& stop) { return stop.empty(); });
  std::stable_sort(stops_.begin(), stops_.end(),
                   [](const std::string& a, const std::string& b) { return a.size() < b.size(); });
}

std::string StopFilter::push(std::string_view text) {
  if (stopped_) return {};
  held_.append(text);
  for (size_t at = 0; at < held_.size(); ++at) {
    std::string_view found;
    const At what = look_at(std::string_view(held_).substr(at), stops_, found);
    if (what == At::nothing) continue;
    std::string out = held_.substr(0, at);
    if (what == At::match) {
      stopped_ = true;
      matched_ = found;
      held_.clear();
    } else {
      held_.erase(0, at);
    }
    return out;
  }
  return std::exchange(held_, {});
}

std::string StopFilter::finish() {
  if (stopped_) return {};
  for (size_t at = 0; at < held_.size(); ++at) {
    std::string_view found;
    if (look_at(std::string_view(held_).substr(at), stops_, found) != At::match) continue;
    stopped_ = true;
    matched_ = found;
    held_.erase(at);
    break;
  }
  return std::exchange(held_, {});
}

}  // namespace ridge
