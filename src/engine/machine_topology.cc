// SPDX-License-Identifier: Apache-2.0
#include "engine/machine_topology.h"

#include <hwloc.h>

#include <algorithm>
#include <compare>

namespace ridge {
namespace {

int count_of(hwloc_topology_t topology, hwloc_obj_type_t type) {
  return std::max(0, hwloc_get_nbobjs_by_type(topology, type));
}

// Only what this process may run on.
void restrict_to_affinity(hwloc_topology_t topology) {
  hwloc_bitmap_t mask = hwloc_bitmap_alloc();
  if (mask == nullptr) return;
  if (hwloc_get_cpubind(topology, mask, HWLOC_CPUBIND_PROCESS) == 0 && !hwloc_bitmap_iszero(mask))
    hwloc_topology_restrict(topology, mask, HWLOC_RESTRICT_FLAG_REMOVE_CPULESS);
  hwloc_bitmap_free(mask);
}

// Cores of two kinds can have caches of two sizes: the larger is the generous answer.
CacheFacts cache_facts(hwloc_topology_t topology, hwloc_obj_type_t type, int level) {
  CacheFacts facts;
  facts.level = level;
  facts.instances = count_of(topology, type);
  for (int i = 0; i < facts.instances; ++i) {
    const hwloc_obj_t cache = hwloc_get_obj_by_type(topology, type, static_cast<unsigned>(i));
    facts.bytes = std::max(facts.bytes, static_cast<int64_t>(cache->attr->cache.size));
  }
  return facts;
}

std::vector<int> spread_cpus(hwloc_topology_t topology) {
  struct Place {
    unsigned thread, core, package;  // rank in the core, of the core in its package, of the package
    int cpu;
    auto operator<=>(const Place&) const = default;
  };
  std::vector<Place> places;
  hwloc_obj_t core_before = nullptr, package_before = nullptr;
  unsigned cores = 0;
  for (int i = 0; i < count_of(topology, HWLOC_OBJ_PU); ++i) {
    const hwloc_obj_t cpu = hwloc_get_obj_by_type(topology, HWLOC_OBJ_PU, static_cast<unsigned>(i));
    const hwloc_obj_t core = hwloc_get_ancestor_obj_by_type(topology, HWLOC_OBJ_CORE, cpu);
    const hwloc_obj_t package = hwloc_get_ancestor_obj_by_type(topology, HWLOC_OBJ_PACKAGE, cpu);
    if (package != package_before) cores = 0;
    if (core == nullptr || core != core_before) ++cores;
    core_before = core;
    package_before = package;
    places.push_back({core == nullptr ? 0 : cpu->sibling_rank, cores,
                      package == nullptr ? 0 : package->logical_index,
                      static_cast<int>(cpu->os_index)});
  }
  std::sort(places.begin(), places.end());
  std::vector<int> cpus;
  for (const Place& place : places) cpus.push_back(place.cpu);
  return cpus;
}

}  // namespace

Topology read_topology() {
  Topology found;
  hwloc_topology_t topology;
  if (hwloc_topology_init(&topology) != 0) return found;
  if (hwloc_topology_load(topology) == 0) {
    found.memory_bytes = static_cast<int64_t>(hwloc_get_root_obj(topology)->total_memory);
    restrict_to_affinity(topology);
    found.packages = count_of(topology, HWLOC_OBJ_PACKAGE);
    found.cores = count_of(topology, HWLOC_OBJ_CORE);
    found.numa_nodes = count_of(topology, HWLOC_OBJ_NUMANODE);
    found.cpus = spread_cpus(topology);
    constexpr hwloc_obj_type_t kLevels[] = {HWLOC_OBJ_L1CACHE, HWLOC_OBJ_L2CACHE, HWLOC_OBJ_L3CACHE,
                                            HWLOC_OBJ_L4CACHE};
    for (int i = 0; i < 4; ++i) {
      const CacheFacts facts = cache_facts(topology, kLevels[i], i + 1);
      if (facts.bytes > 0) found.caches.push_back(facts);
    }
  }
  hwloc_topology_destroy(topology);
  return found;
}

}  // namespace ridge
