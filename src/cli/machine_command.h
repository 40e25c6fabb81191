// `ridge machine`: measures this machine, or shows what was measured before.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "engine/machine.h"

namespace ridge {

// Prints the profile (`json`: as one JSON object) on stdout; `refresh` measures again. Returns the
// exit code: 0, or 2 if RIDGE_ISA asks for what cannot be.
int run_machine_command(bool refresh, bool json);

// The profile as an aligned table for people, with the thread counts it leads to and why.
std::string machine_table(const MachineProfile& profile);

// Shows a measurement's progress on stderr where that is a terminal.
void show_probe_progress(const std::string& what, double done_share);

}  // namespace ridge
