// A matrix somebody else owns: row-major, each row `bytes_of(dtype, cols)` bytes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "tensor/dtype.h"

namespace ridge {

struct TensorView {
  const std::byte* data = nullptr;
  DType dtype = DType::f32;
  int64_t rows = 0;
  int64_t cols = 0;

  int64_t row_bytes() const { return bytes_of(dtype, cols); }
  int64_t bytes() const { return rows * row_bytes(); }
  const std::byte* row(int64_t i) const { return data + i * row_bytes(); }
};

}  // namespace ridge
