// The part of a rendered conversation that is new: what a session's cache stands for is not
// tokenised again.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "text/chat_template.h"

namespace ridge {

// The spans without the first `bytes` bytes of their text.
std::vector<ChatSpan> drop_prefix(std::vector<ChatSpan> spans, size_t bytes);

size_t text_bytes(const std::vector<ChatSpan>& spans);

}  // namespace ridge
