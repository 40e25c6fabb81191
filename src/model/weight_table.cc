// SPDX-License-Identifier: Apache-2.0
#include "model/weight_table.h"

#include <fmt/format.h>

#include <cstring>

#include "base/check.h"
#include "model/quote.h"

namespace ridge {
namespace {

// Never a weight of an op: it is the divisors of RoPE's angles.
constexpr std::string_view kRopeFreqs = "rope_freqs.weight";

Error bad(const GgufFile& file, std::string what) {
  return {ErrorCode::invalid_input, fmt::format("{}: {}", file.path(), what)};
}

// Where the floats of a block stand: up to two f16 scales. -1: none.
struct ScaleOffsets {
  int64_t first, second;
};

ScaleOffsets scale_offsets(DType dtype) {
  switch (dtype) {
    case DType::q4_0:
    case DType::q5_0:
    case DType::q8_0:
      return {0, -1};
    case DType::q4_1:
    case DType::q5_1:
    case DType::q4_k:
    case DType::q5_k:
      return {0, 2};
    case DType::q2_k:
      return {80, 82};
    case DType::q3_k:
      return {108, -1};
    case DType::q6_k:
      return {208, -1};
    case DType::f32:
    case DType::f16:
    case DType::bf16:
      break;
  }
  CHECK(false);
  return {-1, -1};
}

// Whether any of `count` numbers, `stride` bytes apart, has all bits of its exponent set.
template <class Bits>
bool any_not_finite(const std::byte* data, int64_t count, int64_t stride, Bits exponent) {
  unsigned found = 0;
  for (int64_t i = 0; i < count; ++i) {
    Bits bits;
    std::memcpy(&bits, data + i * stride, sizeof bits);
    found |= (bits & exponent) == exponent;
  }
  return found != 0;
}

constexpr uint32_t kF32Exponent = 0x7f800000;
constexpr uint16_t kF16Exponent = 0x7c00;
constexpr uint16_t kBf16Exponent = 0x7f80;

bool finite(DType dtype, const std::byte* data, int64_t elements) {
  // Constant strides let the compiler use vectors.
  if (dtype == DType::f32) return !any_not_finite<uint32_t>(data, elements, 4, kF32Exponent);
  if (dtype == DType::f16) return !any_not_finite<uint16_t>(data, elements, 2, kF16Exponent);
  if (dtype == DType::bf16) return !any_not_finite<uint16_t>(data, elements, 2, kBf16Exponent);
  const BlockFormat block = block_format(dtype);
  const ScaleOffsets at = scale_offsets(dtype);
  const int64_t blocks = elements / block.elements;
  if (any_not_finite<uint16_t>(data + at.first, blocks, block.bytes, kF16Exponent)) return false;
  return at.second < 0 ||
         !any_not_finite<uint16_t>(data + at.second, blocks, block.bytes, kF16Exponent);
}

}  // namespace

Result<WeightTable> WeightTable::create(const GgufFile& file,
                                        const std::vector<ExpectedWeight>& expected) {
  WeightTable table;
  for (const ExpectedWeight& weight : expected) {
    const GgufTensor* tensor = file.find(weight.name);
    if (tensor == nullptr) {
      return bad(file, fmt::format("tensor {} is missing, expected {} x {}", quoted(weight.name),
                                   weight.rows, weight.cols));
    }
    if (tensor->view.rows != weight.rows || tensor->view.cols != weight.cols) {
      return bad(file, fmt::format("tensor {} is {} x {}, expected {} x {}", quoted(weight.name),
                                   tensor->view.rows, tensor->view.cols, weight.rows, weight.cols));
    }
    table.tensors_.emplace(weight.name, tensor);
  }
  for (const GgufTensor& tensor : file.tensors()) {
    if (tensor.name == kRopeFreqs || table.tensors_.contains(tensor.name)) continue;
    return bad(file, fmt::format("tensor {} ({} x {}) is not one that this architecture uses",
                                 quoted(tensor.name), tensor.view.rows, tensor.view.cols));
  }
  return table;
}

const GgufTensor& WeightTable::at(std::string_view name) const {
  const auto found = tensors_.find(name);
  CHECK(found != tensors_.end());
  return *found->second;
}

Status check_finite(const GgufTensor& tensor) { return check_finite(tensor, 0, tensor.view.rows); }

Status check_finite(const GgufTensor& tensor, int64_t first_row, int64_t row_count) {
  const TensorView& view = tensor.view;
  CHECK(first_row >= 0 && row_count >= 0 && first_row <= view.rows - row_count);
  // Rows are contiguous, so all of them are one run of blocks.
  if (finite(view.dtype, view.row(first_row), row_count * view.cols)) return {};
  for (int64_t row = first_row; row < first_row + row_count; ++row) {
    if (finite(view.dtype, view.row(row), view.cols)) continue;
    return Error{ErrorCode::invalid_input,
                 fmt::format("tensor {} holds a NaN or an infinity in row {}: the file is corrupt",
                             quoted(tensor.name), row)};
  }
  CHECK(false);
  return {};
}

}  // namespace ridge
