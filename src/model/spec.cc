// SPDX-License-Identifier: Apache-2.0
#include "model/spec.h"

#include "base/check.h"

namespace ridge {

std::string_view name_of(Architecture architecture) {
  switch (architecture) {
    case Architecture::llama:
      return "llama";
    case Architecture::qwen2:
      return "qwen2";
    case Architecture::qwen3:
      return "qwen3";
    case Architecture::gemma3:
      return "gemma3";
  }
  CHECK(false);
  return {};
}

}  // namespace ridge
