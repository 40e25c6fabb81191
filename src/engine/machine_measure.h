// How a machine is measured: the limits that a test tightens, and the step from a curve of read
// rates to one rate per level.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "engine/machine.h"

namespace ridge {

struct MeasureLimits {
  // Of the largest set. It is made as long as this allows, a quarter of the free memory at most.
  int64_t set_bytes_max = int64_t{1} << 30;
  // For touching that set's pages: a virtual machine may have to be given them first.
  Seconds fill_seconds_max{1.8};
  // For the tries. They go round all figures, so that each figure's are spread over this time.
  Seconds try_seconds{3.0};
  int rounds_min = 2;
};

MachineProfile measure_machine(Isa isa, const MeasureLimits& limits, const ProbeProgress& progress);

// The rate at which bytes arrive from a level, when the levels further in hold `inner` bytes and
// this one `capacity` (ignored if `last`): the best rate of the sets that are mostly held here, and
// never so small that a point of the curve beats its floor. No set of such a size: the
// best of the larger ones, which can only be too fast.
BytesPerSecond level_rate(const std::vector<ReadPoint>& curve, int64_t inner, int64_t capacity,
                          bool last);

}  // namespace ridge
