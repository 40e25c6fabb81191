// Ops as text for people: `ridge inspect --program`.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "program/op.h"

namespace ridge {

// One line, without a newline: stage, kind, buffers ("->" overwrites, "+>" adds), then what the op
// is made of. "qkv        matmul     normed -> q            blk.0.attn_q.weight 576x576 Q4_1"
std::string describe(const Op& op);

}  // namespace ridge
