// What this CPU is and which of our kernel families it can run.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace ridge {

// Kernel families, slowest first. `plain` runs on any x86-64-v2 CPU (and any other architecture).
enum class Isa { plain, avx2, avx512_vnni };

std::string_view name_of(Isa isa);  // "plain", "avx2", "avx512_vnni": the values of RIDGE_ISA
bool cpu_has(Isa isa);              // CPUID and the operating system's saved state
std::vector<Isa> cpu_isas();        // all that this CPU has, slowest first

// The family named by RIDGE_ISA, else the fastest that the CPU has. Decided once per process.
// Errors: an unknown name; a family that the CPU lacks (never a silent fallback).
Result<Isa> selected_isa();

// The family called `name`, if `available` lists it: what selected_isa() does with RIDGE_ISA.
Result<Isa> isa_named(std::string_view name, const std::vector<Isa>& available);

std::string cpu_name();  // "Intel(R) Xeon(R) Processor", or "unknown CPU"
int usable_cpus();       // CPUs in this process's affinity mask

}  // namespace ridge
