// SPDX-License-Identifier: Apache-2.0
#include "cost/device.h"

#include <algorithm>

#include "base/check.h"

namespace ridge {

const MemoryLevel& home_level(const Device& device, Bytes set) {
  CHECK(!device.levels.empty());
  for (size_t i = 0; i + 1 < device.levels.size(); ++i) {
    if (set <= device.levels[i].capacity) return device.levels[i];
  }
  return device.levels.back();
}

Seconds read_floor(const Device& device, Bytes bytes, Bytes recurring) {
  CHECK(!device.levels.empty());
  Seconds floor;
  Bytes below;
  for (const MemoryLevel& level : device.levels) {
    // A set of nothing crosses only the innermost level.
    const double crossing = below.value == 0                ? 1
                            : recurring.value > below.value ? 1 - below / recurring
                                                            : 0;
    floor = std::max(floor, bytes * crossing / level.read_rate);
    below += level.capacity;
  }
  return floor;
}

}  // namespace ridge
