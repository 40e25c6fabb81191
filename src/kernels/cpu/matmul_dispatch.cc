// SPDX-License-Identifier: Apache-2.0
#include "base/check.h"
#include "kernels/cpu/matmul_isa.h"

namespace ridge {

const MatmulKernels& matmul_kernels(Isa isa) {
  CHECK(cpu_has(isa));
#if defined(__x86_64__)
  if (isa == Isa::avx512_vnni) return cpu::kMatmulAvx512Vnni;
  if (isa == Isa::avx2) return cpu::kMatmulAvx2;
#endif
  return cpu::kMatmulPlain;
}

}  // namespace ridge
