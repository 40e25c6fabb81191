// What hwloc says about the CPUs this process may use.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "engine/machine.h"

namespace ridge {

struct Topology {
  int packages = 0, cores = 0, numa_nodes = 0;  // that the affinity mask reaches; 0: unknown
  int64_t memory_bytes = 0;                     // of the machine; 0: unknown
  std::vector<CacheFacts> caches;               // data or unified, of known size, innermost first
  // The usable CPUs (the system's numbers) in the order in which threads are to take them: as far
  // from each other as can be, so a second package before a second core before a second
  // hyperthread.
  std::vector<int> cpus;
};

// Empty where hwloc cannot look.
Topology read_topology();

}  // namespace ridge
