// What this machine can do, measured once and kept in a cache file: read and copy bandwidth by
// working-set size and thread count, fp32 and int8 multiply peaks by thread count, caches and
// topology (hwloc). The ceilings that every floor on this machine is made of.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "base/cpu_info.h"
#include "base/result.h"
#include "base/units.h"
#include "cost/device.h"

namespace ridge {

// One cache as hwloc reports it (size 0: unknown).
struct CacheFacts {
  int level = 0;
  int64_t bytes = 0;  // of one instance
  int instances = 0;  // that the usable CPUs see
};

// How fast a set of so many bytes, swept again and again, was read. Best of several tries.
struct ReadPoint {
  int64_t bytes = 0;  // of all threads together
  BytesPerSecond rate;
};

// Rates with n threads running together.
struct ThreadRates {
  int threads = 0;
  // One per cache level that exists (innermost first), then memory last. Best of several tries.
  std::vector<BytesPerSecond> read_rate;
  BytesPerSecond cache_copy_rate;     // in the last cache; bytes read + bytes written
  BytesPerSecond memory_copy_rate;    // the same in memory
  FlopsPerSecond fp32_rate;           // multiply-adds counted as two
  FlopsPerSecond int8_rate;           // the same, of the int8 dot product the kernels use
  std::vector<ReadPoint> read_curve;  // ascending bytes; what read_rate was taken from
};

struct MachineProfile {
  std::string cpu;
  Isa isa = Isa::plain;
  int usable_cpus = 0;
  int packages = 0, cores = 0, numa_nodes = 0;  // that hold usable CPUs; 0: unknown
  int64_t memory_bytes = 0;
  std::vector<CacheFacts> caches;    // data caches, innermost first
  std::vector<ThreadRates> rates;    // threads 1, 2, 4, ... usable_cpus
  std::string date;                  // ISO 8601, UTC
  bool measured_while_busy = false;  // other processes used the CPUs meanwhile
  int64_t largest_set_bytes = 0;     // of the memory figures

  // False where the largest set was under four times the last cache (as hwloc reports it; a virtual
  // machine sees one that it shares): then the memory rates are upper bounds.
  bool memory_beyond_caches() const;
  // Fewest threads that reach 97 % of the best memory read rate.
  int decode_threads() const;
  // One for each usable core: hardware threads of one core share its multipliers. All usable CPUs
  // where the cores are not known.
  int prefill_threads() const { return cores > 0 ? std::min(cores, usable_cpus) : usable_cpus; }
};

// The machine as a cost Device with `threads` threads; `exact`: fp32 activations. Every rate is a
// ceiling: at least that of any fewer threads and of any level further out, and between two
// measured thread counts that of the larger one where it is not more than proportional. Where
// neighbours were busy, private caches and multiply peaks count as one thread's, times the threads.
Device device_of(const MachineProfile& profile, int threads, bool exact);

using ProbeProgress = std::function<void(const std::string& what, double done_share)>;

MachineProfile measure_machine(Isa isa, const ProbeProgress& progress = {});

// $XDG_CACHE_HOME/ridge/machine-<isa>-<n>cpus.json (or ~/.cache), n: the CPUs usable now, so that a
// run held to some of them leaves the profile of all alone. A file of another CPU, ISA, CPU count
// or format version counts as missing.
std::string machine_cache_path(Isa isa);
Result<MachineProfile> load_machine(Isa isa);
Status save_machine(const MachineProfile& profile);
// Loads, or measures and saves (a failure to save is not an error: it is told through `warning`).
MachineProfile machine_profile(Isa isa, bool refresh, const ProbeProgress& progress,
                               std::string* warning);
// Keeps the better of two measurements, figure by figure: a ceiling that neighbours held down once
// must not stay low. Used when something measured beat a floor.
MachineProfile merge_best(const MachineProfile& a, const MachineProfile& b);

std::string machine_json(const MachineProfile& profile);

}  // namespace ridge
