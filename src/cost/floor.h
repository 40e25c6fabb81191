// Work on a Device: the least time it can take.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>

#include "cost/device.h"
#include "cost/work.h"
#include "program/op.h"
#include "program/step_shape.h"

namespace ridge {

// Which limit an op or a phase is up against.
enum class Roof { memory, matmul, attention, wire };
inline constexpr int kRoofCount = 4;
const char* name_of(Roof roof);

struct Floor {
  Seconds seconds;
  Roof roof = Roof::memory;  // the one that binds
};

// The roof with the most time; of equals the first.
Roof most_binding(const std::array<Seconds, kRoofCount>& by_roof);

// Of one op: the highest of its roofs. `recurring`: all bytes that the step streams, which decides
// what the caches can keep until the next step. Ops run one after another, so a step's floor is the
// sum over its ops.
Floor floor_seconds(const Work& work, const Device& device, Bytes recurring);

// Of a whole step; the roof is the one that binds the most time.
Floor floor_seconds(const Program& program, const StepShape& shape, const Device& device);

}  // namespace ridge
