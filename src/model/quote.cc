// SPDX-License-Identifier: Apache-2.0
#include "model/quote.h"

#include <fmt/format.h>

namespace ridge {

std::string quoted(std::string_view text) {
  constexpr size_t kMaxQuotedBytes = 80;
  std::string out = "'";
  for (char c : text.substr(0, kMaxQuotedBytes)) {
    if (c >= ' ' && c <= '~' && c != '\'' && c != '\\') {
      out += c;
    } else {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    }
  }
  return out + (text.size() > kMaxQuotedBytes ? "...'" : "'");
}

}  // namespace ridge
