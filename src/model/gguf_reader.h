// The bytes of one GGUF file to its metadata and tensors. Invariant: every count and length is
// checked against the bytes that are left, and what is kept in memory against the file's size,
// before it is allocated; every tensor returned lies inside the bytes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/gguf.h"

namespace ridge {

// Real files have under 100 keys and 2 000 tensors; the limits keep a hostile file small in memory.
inline constexpr uint64_t kMaxGgufKeys = 1 << 16;
inline constexpr uint64_t kMaxGgufTensors = 1 << 16;
inline constexpr uint64_t kMaxGgufKeyBytes = 65535;       // GGUF specification
inline constexpr uint64_t kMaxGgufTensorNameBytes = 255;  // the specification says 64
inline constexpr uint64_t kMaxGgufAlignment = 1 << 20;
// Alignments are multiples of 8 by the specification, which keeps f32 tensors aligned.
inline constexpr uint64_t kMinGgufAlignment = 8;
inline constexpr uint64_t kDefaultGgufAlignment = 32;
// What parsing may keep, as a multiple of the file's size: a one-letter token takes 9 bytes in the
// file and a 32-byte std::string here. The constant part lets small files hold small values.
inline constexpr uint64_t kMetadataAmplification = 3;
inline constexpr uint64_t kMetadataSlackBytes = 4 << 20;
inline constexpr uint64_t kMaxMetadataBytes = 512 << 20;

struct GgufPart {
  std::map<std::string, GgufValue, std::less<>> metadata;
  std::vector<GgufTensor> tensors;  // views point into the bytes given
};

// `name` is the file's name for messages.
Result<GgufPart> read_gguf_part(std::span<const std::byte> bytes, const std::string& name);

}  // namespace ridge
