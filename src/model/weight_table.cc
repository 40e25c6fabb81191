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

// Whether any number at `first`, and at `second` if there is one, of any block has all bits of its
// exponent set. Constant strides and one pass: the blocks come from memory once.
template <class Bits, int64_t kStride, int64_t kFirst = 0, int64_t kSecond = -1>
bool any_not_finite(const std::byte* data, int64_t blocks, Bits exponent) {
  const auto all_ones_at = [exponent](const std::byte* p) -> unsigned {
    Bits bits;
    std::memcpy(&bits, p, sizeof bits);
    return (bits & exponent) == exponent;
  };
  unsigned found = 0;
  for (int64_t i = 0; i < blocks; ++i) {
    found |= all_ones_at(data + i * kStride + kFirst);
    if constexpr (kSecond >= 0) found |= all_ones_at(data + i * kStride + kSecond);
  }
  return found != 0;
}

constexpr uint32_t kF32Exponent = 0x7f800000;
constexpr uint16_t kF16Exponent = 0x7c00;
constexpr uint16_t kBf16Exponent = 0x7f80;

// The f16 scales stand where tensor/codec.cc reads them.
bool finite(DType dtype, const std::byte* p, int64_t elements) {
  const int64_t n = elements / block_format(dtype).elements;
  switch (dtype) {
    case DType::f32:
      return !any_not_finite<uint32_t, 4>(p, n, kF32Exponent);
    case DType::f16:
      return !any_not_finite<uint16_t, 2>(p, n, kF16Exponent);
    case DType::bf16:
      return !any_not_finite<uint16_t, 2>(p, n, kBf16Exponent);
    case DType::q4_0:
      return !any_not_finite<uint16_t, 18>(p, n, kF16Exponent);
    case DType::q4_1:
      return !any_not_finite<uint16_t, 20, 0, 2>(p, n, kF16Exponent);
    case DType::q5_0:
      return !any_not_finite<uint16_t, 22>(p, n, kF16Exponent);
    case DType::q5_1:
      return !any_not_finite<uint16_t, 24, 0, 2>(p, n, kF16Exponent);
    case DType::q8_0:
      return !any_not_finite<uint16_t, 34>(p, n, kF16Exponent);
    case DType::q2_k:
      return !any_not_finite<uint16_t, 84, 80, 82>(p, n, kF16Exponent);
    case DType::q3_k:
      return !any_not_finite<uint16_t, 110, 108>(p, n, kF16Exponent);
    case DType::q4_k:
      return !any_not_finite<uint16_t, 144, 0, 2>(p, n, kF16Exponent);
    case DType::q5_k:
      return !any_not_finite<uint16_t, 176, 0, 2>(p, n, kF16Exponent);
    case DType::q6_k:
      return !any_not_finite<uint16_t, 210, 208>(p, n, kF16Exponent);
  }
  CHECK(false);
  return false;
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
