// SPDX-License-Identifier: Apache-2.0
#include "program/lower.h"

#include <fmt/format.h>

#include "program/arch/arch.h"

namespace ridge {

Result<Program> lower(const ModelSpec& spec, Sharding sharding) {
  const int64_t ranks = sharding.tensor_parallel;
  if (ranks < 1 || spec.n_heads % ranks != 0 || spec.n_kv_heads % ranks != 0 ||
      spec.d_ff % ranks != 0)
    return Error{ErrorCode::usage,
                 fmt::format("tensor parallel {} does not divide {} heads, {} KV heads and d_ff {}",
                             ranks, spec.n_heads, spec.n_kv_heads, spec.d_ff)};
  ProgramBuilder builder(spec, sharding);
  switch (spec.architecture) {
    case Architecture::llama:
      lower_llama(builder);
      break;
    case Architecture::qwen2:
      lower_qwen2(builder);
      break;
    case Architecture::qwen3:
      lower_qwen3(builder);
      break;
    case Architecture::gemma3:
      lower_gemma3(builder);
      break;
  }
  return std::move(builder).take();
}

}  // namespace ridge
