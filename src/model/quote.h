// Text from a file, made safe to print in a message: it may be long, binary or an escape sequence.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace ridge {

// 'text', cut at 80 bytes, with everything but printable ASCII as \xNN.
std::string quoted(std::string_view text);

}  // namespace ridge
