// Words for tensor types in messages: the ones that ridge reads, and the others by name.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace ridge {

// "20 (IQ4_NL)", or the bare number of a type that nobody has named.
std::string type_label(uint32_t gguf_type);

// "F32 F16 ...": every dtype that ridge reads.
std::string readable_dtypes();

}  // namespace ridge
