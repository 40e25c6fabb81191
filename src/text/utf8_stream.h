// Bytes in, complete UTF-8 out: a character spread over several tokens is held until it is whole,
// and what can never become valid is replaced exactly as Python's decode(errors="replace") does.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace ridge {

class Utf8Stream {
 public:
  // Returns the text that is certain now. Never splits a character.
  std::string push(std::string_view bytes);
  // Ends the stream: a dangling prefix becomes exactly one U+FFFD.
  std::string finish();

 private:
  std::string pending_;
};

// The whole text at once, by the same rules.
std::string to_valid_utf8(std::string_view bytes);
bool is_valid_utf8(std::string_view bytes);

}  // namespace ridge
