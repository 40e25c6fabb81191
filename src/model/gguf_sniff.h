// What a file that is not GGUF seems to be, so that the message can say what to do.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace ridge {

// A clause such as "it looks like a safetensors file", or "it starts with 4a 4b 4c 4d".
std::string what_it_looks_like(std::span<const std::byte> bytes);

}  // namespace ridge
