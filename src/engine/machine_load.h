// What else goes on in this machine while it is measured: free memory, and whether other processes
// (or other guests of the same host) used the CPUs meanwhile.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/units.h"

namespace ridge {

// Bytes that could be allocated now without swapping, within a container's limit; 0: unknown.
int64_t available_memory();

// Watches the usable CPUs from its making on.
class CpuLoad {
 public:
  CpuLoad();
  // Whether others took more than a twentieth of them since, by the system's account; or threads of
  // ours had to make way more than 20 times a second (some containers' accounts
  // show only their own processes).
  bool others_were_busy() const;

 private:
  Seconds start_, all_, own_;
  int64_t made_way_;
};

}  // namespace ridge
