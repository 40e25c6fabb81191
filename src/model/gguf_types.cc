// SPDX-License-Identifier: Apache-2.0
#include "model/gguf_types.h"

#include <fmt/format.h>

#include "tensor/dtype.h"

namespace ridge {
namespace {

// Names of ggml tensor types that ridge does not read (ggml.h, gguf 0.19.0), for messages.
struct ForeignType {
  uint32_t number;
  const char* name;
};
constexpr ForeignType kForeignTypes[] = {
    {4, "Q4_2, removed from ggml"},
    {5, "Q4_3, removed from ggml"},
    {9, "Q8_1"},
    {15, "Q8_K"},
    {16, "IQ2_XXS"},
    {17, "IQ2_XS"},
    {18, "IQ3_XXS"},
    {19, "IQ1_S"},
    {20, "IQ4_NL"},
    {21, "IQ3_S"},
    {22, "IQ2_S"},
    {23, "IQ4_XS"},
    {24, "I8"},
    {25, "I16"},
    {26, "I32"},
    {27, "I64"},
    {28, "F64"},
    {29, "IQ1_M"},
    {34, "TQ1_0"},
    {35, "TQ2_0"},
    {39, "MXFP4"},
    {40, "NVFP4"},
};

}  // namespace

std::string type_label(uint32_t gguf_type) {
  for (const ForeignType& foreign : kForeignTypes) {
    if (foreign.number == gguf_type) return fmt::format("{} ({})", gguf_type, foreign.name);
  }
  return fmt::format("{}", gguf_type);
}

std::string readable_dtypes() {
  std::string list;
  for (int i = 0; i < kDTypeCount; ++i) {
    if (i > 0) list += ' ';
    list += name_of(static_cast<DType>(i));
  }
  return list;
}

}  // namespace ridge
