// The only counting formulas in the project.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "cost/work.h"
#include "program/op.h"
#include "program/step_shape.h"

namespace ridge {

// Bytes of one element of a step buffer: activations are fp32 between ops.
inline constexpr int64_t kActivationBytes = 4;

Work work_of(const Op& op, const StepShape& shape);
Work work_of(const Program& program, const StepShape& shape);

// Equal keys mean equal Work for every shape (layers repeat: a step has few different ops).
std::string work_key(const Op& op);

}  // namespace ridge
