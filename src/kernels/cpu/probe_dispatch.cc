// SPDX-License-Identifier: Apache-2.0
#include "base/check.h"
#include "kernels/cpu/probe_tables.h"

namespace ridge {

const ProbeKernels& probe_kernels(Isa isa) {
  CHECK(cpu_has(isa));
#if defined(__x86_64__)
  if (isa == Isa::avx512_vnni) return kProbeAvx512Vnni;
  if (isa == Isa::avx2) return kProbeAvx2;
#endif
  return kProbePlain;
}

}  // namespace ridge
