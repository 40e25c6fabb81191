// One lowering per architecture: each reads like the forward pass, because it is the forward pass.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "program/builder.h"

namespace ridge {

void lower_llama(ProgramBuilder& b);
void lower_qwen2(ProgramBuilder& b);
void lower_qwen3(ProgramBuilder& b);
void lower_gemma3(ProgramBuilder& b);

}  // namespace ridge
