// A device as the floor sees it: how fast bytes arrive from each level of memory, how many of them
// each level can keep from one step to the next, and how fast it multiplies. The only place with
// hardware rates. Every number carries where it came from.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "base/units.h"

namespace ridge {

// One level that a step's bytes come from. The last level holds everything.
struct MemoryLevel {
  std::string name;          // "L1", "L2", "L3", "memory"
  Bytes capacity;            // of all threads in use together; ignored for the last level
  BytesPerSecond read_rate;  // of all threads in use together
};

// How fast a set of so many bytes was read when it was swept again and again: what a decode loop
// does. Measured, so it knows what no datasheet does: how much of a shared cache is ours.
struct SweepRate {
  Bytes set;
  BytesPerSecond rate;
};

struct Device {
  std::string name;
  std::vector<MemoryLevel> levels;  // innermost first; at least one
  // Sets beyond the private caches, ascending, with rates that never rise. Empty: only levels
  // known.
  std::vector<SweepRate> sweeps;
  FlopsPerSecond matmul_rate;     // of weight products, in the arithmetic in use
  FlopsPerSecond attention_rate;  // of attention
  BytesPerSecond wire_rate;       // between ranks, one way; 0: a single device
  std::string matmul_arithmetic;  // "int8", "fp32", "bf16": what matmul_rate is for
  std::string source;             // "measured 2026-11-30, 2 threads", "datasheet ..."
};

// The level that a `set` of bytes that recur every step fits into (the last one if none), with the
// rate at which such a set is read: that of the largest measured sweep that is not larger, where
// there is one, else the level's own.
MemoryLevel home_level(const Device& device, Bytes set);

// Least time to read `bytes` out of a set of `recurring` bytes that is swept once per step: at the
// rate measured for such sweeps. Where none was measured, by the levels: whatever does not fit in a
// level must cross the next one, however well the caches behave; so the slowest crossing bounds the
// sweep: max over levels of bytes * (1 - capacity_below / recurring) / rate, where capacity_below
// adds up all inner levels, since an exclusive cache holds what they do not.
Seconds read_floor(const Device& device, Bytes bytes, Bytes recurring);

}  // namespace ridge
