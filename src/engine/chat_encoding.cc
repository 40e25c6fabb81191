// SPDX-License-Identifier: Apache-2.0
#include "engine/chat_encoding.h"

#include <algorithm>

namespace ridge {

std::vector<ChatSpan> drop_prefix(std::vector<ChatSpan> spans, size_t bytes) {
  std::vector<ChatSpan> rest;
  for (ChatSpan& span : spans) {
    const size_t drop = std::min(bytes, span.text.size());
    bytes -= drop;
    span.text.erase(0, drop);
    if (!span.text.empty()) rest.push_back(std::move(span));
  }
  return rest;
}

size_t text_bytes(const std::vector<ChatSpan>& spans) {
  size_t n = 0;
  for (const ChatSpan& span : spans) n += span.text.size();
  return n;
}

}  // namespace ridge
