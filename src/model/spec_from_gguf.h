// GGUF metadata to ModelSpec: required keys, their ranges, and how they must fit together.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/result.h"
#include "model/gguf.h"
#include "model/spec.h"

namespace ridge {

// Errors name the key, what was found and what was expected.
Result<ModelSpec> spec_from_gguf(const GgufFile& file);

}  // namespace ridge
