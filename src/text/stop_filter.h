// Finds the earliest of several stop strings in a stream of text, across token borders. Text that
// might be the start of a stop string is held back and released once, in order, as soon as it
// cannot be one.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ridge {

class StopFilter {
 public:
  explicit StopFilter(std::vector<std::string> stops);

  // Returns the text that may be shown now. After a hit it returns "" for ever.
  std::string push(std::string_view text);
  // No more text will come: releases what was held back, unless stopped.
  std::string finish();
  bool stopped() const { return stopped_; }
  // The stop string that was found ("" if none).
  const std::string& matched() const { return matched_; }

 private:
  std::vector<std::string> stops_;
  std::string held_;
  std::string matched_;
  bool stopped_ = false;
};

}  // namespace ridge
