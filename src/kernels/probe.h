// Loops that show what this CPU can do at most: reading, copying and multiplying with nothing else
// in the way. They know no clock and no thread; the machine probe times them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/cpu_info.h"

namespace ridge {

// Sizes given to the loops below are multiples of this.
inline constexpr int64_t kProbeGranule = 4096;

struct ProbeKernels {
  // Loads every byte of [data, data + bytes), 64-byte aligned, and adds it up. `ahead` > 0
  // prefetches that many bytes ahead (hardware ignores a prefetch past the end).
  void (*read)(const std::byte* data, int64_t bytes, int64_t ahead);
  // The same bytes as four streams side by side, as a kernel reads four rows.
  void (*read_streams)(const std::byte* data, int64_t bytes);
  // Copies between 64-byte aligned places that do not overlap; `streaming` stores past the caches.
  void (*copy)(const std::byte* from, std::byte* to, int64_t bytes, bool streaming);
  // Independent multiply-adds in registers; each round is so many FLOPs (a multiply-add is two).
  void (*fp32)(int64_t rounds);
  int64_t fp32_flops_per_round;
  // The same for the int8 dot product that the matmul of this family is made of.
  void (*int8)(int64_t rounds);
  int64_t int8_flops_per_round;
};

// `isa` must be one that the CPU has.
const ProbeKernels& probe_kernels(Isa isa);

}  // namespace ridge
