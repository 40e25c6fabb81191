// `ridge machine`: measures this machine, or shows what was measured before.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "engine/machine.h"

namespace ridge {

// This machine's profile: from the cache file, else (or with `refresh`) measured, with progress on
// a terminal.
MachineProfile known_machine(Isa isa, bool refresh);

// The profile as an aligned table for people, with the thread counts it leads to and why.
std::string machine_table(const MachineProfile& profile);

}  // namespace ridge
