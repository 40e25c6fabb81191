// SPDX-License-Identifier: Apache-2.0
#include "cost/device.h"

#include <algorithm>

#include "base/check.h"

namespace ridge {

namespace {

// Null where no sweep of `set` bytes or fewer was measured.
const SweepRate* sweep_of(const Device& device, Bytes set) {
  const SweepRate* found = nullptr;
  for (const SweepRate& sweep : device.sweeps)
    if (sweep.set <= set) found = &sweep;
  return found;
}

}  // namespace

MemoryLevel home_level(const Device& device, Bytes set) {
  CHECK(!device.levels.empty());
  size_t i = 0;
  while (i + 1 < device.levels.size() && set > device.levels[i].capacity) ++i;
  MemoryLevel home = device.levels[i];
  if (const SweepRate* sweep = sweep_of(device, set)) home.read_rate = sweep->rate;
  return home;
}

Seconds read_floor(const Device& device, Bytes bytes, Bytes recurring) {
  CHECK(!device.levels.empty());
  if (const SweepRate* sweep = sweep_of(device, recurring)) return bytes / sweep->rate;
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
