// SPDX-License-Identifier: Apache-2.0
#include "tensor/dtype.h"

#include <array>

#include "base/check.h"

namespace ridge {
namespace {

struct DTypeRow {
  std::string_view name;
  uint32_t gguf_type;
  BlockFormat block;
};

// Indexed by DType.
constexpr std::array<DTypeRow, kDTypeCount> kRows = {{
    {"F32", 0, {1, 4}},
    {"F16", 1, {1, 2}},
    {"BF16", 30, {1, 2}},
    {"Q4_0", 2, {32, 2 + 16}},
    {"Q4_1", 3, {32, 2 + 2 + 16}},
    {"Q5_0", 6, {32, 2 + 4 + 16}},
    {"Q5_1", 7, {32, 2 + 2 + 4 + 16}},
    {"Q8_0", 8, {32, 2 + 32}},
    {"Q2_K", 10, {256, 16 + 64 + 2 + 2}},
    {"Q3_K", 11, {256, 32 + 64 + 12 + 2}},
    {"Q4_K", 12, {256, 2 + 2 + 12 + 128}},
    {"Q5_K", 13, {256, 2 + 2 + 12 + 32 + 128}},
    {"Q6_K", 14, {256, 128 + 64 + 16 + 2}},
}};

const DTypeRow& row_of(DType dtype) {
  const auto i = static_cast<size_t>(dtype);
  CHECK(i < kRows.size());
  return kRows[i];
}

}  // namespace

BlockFormat block_format(DType dtype) { return row_of(dtype).block; }

std::string_view name_of(DType dtype) { return row_of(dtype).name; }

std::optional<DType> dtype_from_gguf_type(uint32_t gguf_type) {
  for (size_t i = 0; i < kRows.size(); ++i) {
    if (kRows[i].gguf_type == gguf_type) return static_cast<DType>(i);
  }
  return std::nullopt;
}

uint32_t gguf_type_of(DType dtype) { return row_of(dtype).gguf_type; }

int64_t bytes_of(DType dtype, int64_t elements) {
  const BlockFormat block = block_format(dtype);
  CHECK(elements >= 0 && elements % block.elements == 0);
  return elements / block.elements * block.bytes;
}

bool is_float(DType dtype) {
  return dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16;
}

}  // namespace ridge
