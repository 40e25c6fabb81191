// The loops of each kernel family; probe_dispatch.cc chooses.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/probe.h"

namespace ridge {

extern const ProbeKernels kProbePlain, kProbeAvx2, kProbeAvx512Vnni;

}  // namespace ridge
