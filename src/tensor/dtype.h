// The element types of tensors as GGUF stores them: names, block formats and the one formula for
// how many bytes a row of each takes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace ridge {

enum class DType : uint8_t {
  f32,
  f16,
  bf16,
  q4_0,
  q4_1,
  q5_0,
  q5_1,
  q8_0,
  q2_k,
  q3_k,
  q4_k,
  q5_k,
  q6_k,
};
inline constexpr int kDTypeCount = 13;

// `elements` weights are stored together in `bytes` bytes.
struct BlockFormat {
  int64_t elements;
  int64_t bytes;
};

// Sizes from the GGUF specification and ggml's block structs (ggml-common.h, read 2026-11).
BlockFormat block_format(DType dtype);

// "Q4_1", as llama.cpp and the gguf Python package print it.
std::string_view name_of(DType dtype);

// The dtype of a GGUF tensor-type number, or nothing if we do not read that type.
std::optional<DType> dtype_from_gguf_type(uint32_t gguf_type);
uint32_t gguf_type_of(DType dtype);

// Bytes of `elements` consecutive elements. CHECKs that they fill whole blocks.
int64_t bytes_of(DType dtype, int64_t elements);

bool is_float(DType dtype);

}  // namespace ridge
