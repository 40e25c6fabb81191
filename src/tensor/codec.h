// Reference decoding of every dtype to float: plain, exact, one row at a time. Fast kernels are
// tested against this.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/dtype.h"

namespace ridge {

float f16_to_f32(uint16_t bits);
uint16_t f32_to_f16(float value);  // round to nearest even; overflow gives infinity
float bf16_to_f32(uint16_t bits);
uint16_t f32_to_bf16(float value);  // round to nearest even

// dst: (elements). `elements` must fill whole blocks of `dtype`.
void decode(DType dtype, const std::byte* src, int64_t elements, float* dst);

}  // namespace ridge
