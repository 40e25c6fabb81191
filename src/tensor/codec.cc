// Each block decoder follows the layout of ggml's block structs (ggml-common.h, read 2026-11) and
// rounds where ggml and the gguf Python package round: scale products first, then the element.
// SPDX-License-Identifier: Apache-2.0
#include "tensor/codec.h"

#include <bit>
#include <cstring>

#include "base/check.h"

namespace ridge {
namespace {

uint8_t u8(const std::byte* p) { return std::to_integer<uint8_t>(*p); }
int8_t i8(const std::byte* p) { return static_cast<int8_t>(u8(p)); }

uint16_t u16(const std::byte* p) {
  uint16_t value;
  std::memcpy(&value, p, sizeof value);
  return value;
}

uint32_t u32(const std::byte* p) {
  uint32_t value;
  std::memcpy(&value, p, sizeof value);
  return value;
}

float half(const std::byte* p) { return f16_to_f32(u16(p)); }
int low_nibble(uint8_t byte) { return byte & 15; }
int high_nibble(uint8_t byte) { return byte >> 4; }

// Blocks of 32: byte j of the quants holds elements j (low nibble) and j + 16 (high nibble).

void decode_q4_0(const std::byte* block, float* y) {
  const float d = half(block);
  const std::byte* qs = block + 2;
  for (int j = 0; j < 16; ++j) {
    y[j] = d * static_cast<float>(low_nibble(u8(qs + j)) - 8);
    y[j + 16] = d * static_cast<float>(high_nibble(u8(qs + j)) - 8);
  }
}

void decode_q4_1(const std::byte* block, float* y) {
  const float d = half(block);
  const float m = half(block + 2);
  const std::byte* qs = block + 4;
  for (int j = 0; j < 16; ++j) {
    y[j] = d * static_cast<float>(low_nibble(u8(qs + j))) + m;
    y[j + 16] = d * static_cast<float>(high_nibble(u8(qs + j))) + m;
  }
}

// The fifth bit of element j of a Q5 block, in place.
int fifth_bit(uint32_t bits, int j) { return static_cast<int>((bits >> j) & 1) << 4; }

void decode_q5_0(const std::byte* block, float* y) {
  const float d = half(block);
  const uint32_t high = u32(block + 2);
  const std::byte* qs = block + 6;
  for (int j = 0; j < 16; ++j) {
    const uint8_t q = u8(qs + j);
    y[j] = d * static_cast<float>((low_nibble(q) | fifth_bit(high, j)) - 16);
    y[j + 16] = d * static_cast<float>((high_nibble(q) | fifth_bit(high, j + 16)) - 16);
  }
}

void decode_q5_1(const std::byte* block, float* y) {
  const float d = half(block);
  const float m = half(block + 2);
  const uint32_t high = u32(block + 4);
  const std::byte* qs = block + 8;
  for (int j = 0; j < 16; ++j) {
    const uint8_t q = u8(qs + j);
    y[j] = d * static_cast<float>(low_nibble(q) | fifth_bit(high, j)) + m;
    y[j + 16] = d * static_cast<float>(high_nibble(q) | fifth_bit(high, j + 16)) + m;
  }
}

void decode_q8_0(const std::byte* block, float* y) {
  const float d = half(block);
  for (int j = 0; j < 32; ++j) y[j] = d * static_cast<float>(i8(block + 2 + j));
}

// Super-blocks of 256. In Q2_K and Q3_K, 32 bytes hold 128 elements: bits 2s and 2s+1 of byte j are
// element 32s + j; each run of 16 elements has its own scale.

void decode_q2_k(const std::byte* block, float* y) {
  const std::byte* scales = block;
  const std::byte* qs = block + 16;
  const float d = half(block + 80);
  const float dmin = half(block + 82);
  for (int i = 0; i < 256; ++i) {
    const uint8_t scale = u8(scales + i / 16);
    const int q = (u8(qs + i / 128 * 32 + i % 32) >> (2 * (i % 128 / 32))) & 3;
    const float step = d * static_cast<float>(low_nibble(scale));
    const float shift = dmin * static_cast<float>(high_nibble(scale));
    y[i] = step * static_cast<float>(q) - shift;
  }
}

// Scale k of a Q3_K block: 6 bits, the low four in a nibble of bytes 0-7, the high two in bytes
// 8-11.
int q3_scale(const std::byte* scales, int k) {
  const uint8_t byte = u8(scales + k % 8);
  const int low = k < 8 ? low_nibble(byte) : high_nibble(byte);
  const int high = (u8(scales + 8 + k % 4) >> (2 * (k / 4))) & 3;
  return (low | high << 4) - 32;
}

void decode_q3_k(const std::byte* block, float* y) {
  const std::byte* high_mask = block;
  const std::byte* qs = block + 32;
  const std::byte* scales = block + 96;
  const float d = half(block + 108);
  for (int i = 0; i < 256; ++i) {
    const int low = (u8(qs + i / 128 * 32 + i % 32) >> (2 * (i % 128 / 32))) & 3;
    const bool high = (u8(high_mask + i % 32) >> (i / 32)) & 1;
    const float step = d * static_cast<float>(q3_scale(scales, i / 16));
    y[i] = step * static_cast<float>(low - (high ? 0 : 4));
  }
}

struct ScaleAndMin {
  int scale, min;
};

// Scale and min of sub-block k (of 8) of a Q4_K or Q5_K block: 6 bits each, packed in 12 bytes. The
// first four pairs stand in the low bits of bytes 0-7; the others are split between bytes 8-11 and
// the two high bits of bytes 0-7.
ScaleAndMin q45_scale(const std::byte* scales, int k) {
  if (k < 4) return {u8(scales + k) & 63, u8(scales + k + 4) & 63};
  const uint8_t nibbles = u8(scales + k + 4);
  return {low_nibble(nibbles) | (u8(scales + k - 4) >> 6) << 4,
          high_nibble(nibbles) | (u8(scales + k) >> 6) << 4};
}

// Sub-blocks 2s and 2s+1 are the low and the high nibbles of the same 32 bytes.
void decode_q4_k(const std::byte* block, float* y) {
  const float d = half(block);
  const float dmin = half(block + 2);
  const std::byte* qs = block + 16;
  for (int k = 0; k < 8; ++k) {
    const ScaleAndMin s = q45_scale(block + 4, k);
    const float step = d * static_cast<float>(s.scale);
    const float shift = dmin * static_cast<float>(s.min);
    for (int j = 0; j < 32; ++j) {
      const uint8_t byte = u8(qs + k / 2 * 32 + j);
      const int q = k % 2 == 0 ? low_nibble(byte) : high_nibble(byte);
      y[32 * k + j] = step * static_cast<float>(q) - shift;
    }
  }
}

void decode_q5_k(const std::byte* block, float* y) {
  const float d = half(block);
  const float dmin = half(block + 2);
  const std::byte* high = block + 16;
  const std::byte* qs = block + 48;
  for (int k = 0; k < 8; ++k) {
    const ScaleAndMin s = q45_scale(block + 4, k);
    const float step = d * static_cast<float>(s.scale);
    const float shift = dmin * static_cast<float>(s.min);
    for (int j = 0; j < 32; ++j) {
      const uint8_t byte = u8(qs + k / 2 * 32 + j);
      const int low = k % 2 == 0 ? low_nibble(byte) : high_nibble(byte);
      const int q = low | ((u8(high + j) >> k) & 1) << 4;
      y[32 * k + j] = step * static_cast<float>(q) - shift;
    }
  }
}

// Each half of 128 elements is 64 bytes of low nibbles (elements 0-63 low, 64-127 high) and 32
// bytes of high bit pairs (pair s of byte j is element 32s + j).
void decode_q6_k(const std::byte* block, float* y) {
  const float d = half(block + 208);
  for (int i = 0; i < 256; ++i) {
    const int part = i / 128, within = i % 128;
    const uint8_t low_byte = u8(block + part * 64 + within % 64);
    const int low = within < 64 ? low_nibble(low_byte) : high_nibble(low_byte);
    const int high = (u8(block + 128 + part * 32 + within % 32) >> (2 * (within / 32))) & 3;
    const float step = d * static_cast<float>(i8(block + 192 + i / 16));
    y[i] = step * static_cast<float>((low | high << 4) - 32);
  }
}

void decode_f32(const std::byte* src, float* y) { std::memcpy(y, src, sizeof *y); }
void decode_f16(const std::byte* src, float* y) { *y = half(src); }
void decode_bf16(const std::byte* src, float* y) { *y = bf16_to_f32(u16(src)); }

using BlockDecoder = void (*)(const std::byte*, float*);

BlockDecoder decoder_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return decode_f32;
    case DType::f16:
      return decode_f16;
    case DType::bf16:
      return decode_bf16;
    case DType::q4_0:
      return decode_q4_0;
    case DType::q4_1:
      return decode_q4_1;
    case DType::q5_0:
      return decode_q5_0;
    case DType::q5_1:
      return decode_q5_1;
    case DType::q8_0:
      return decode_q8_0;
    case DType::q2_k:
      return decode_q2_k;
    case DType::q3_k:
      return decode_q3_k;
    case DType::q4_k:
      return decode_q4_k;
    case DType::q5_k:
      return decode_q5_k;
    case DType::q6_k:
      return decode_q6_k;
  }
  CHECK(false);
  return nullptr;
}

}  // namespace

float f16_to_f32(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
  const uint32_t exponent = (bits >> 10) & 31;
  const uint32_t fraction = bits & 0x3ff;
  if (exponent == 0) {  // zero or subnormal: fraction * 2^-24, exact in f32
    const float magnitude = static_cast<float>(fraction) * 0x1.0p-24f;
    return std::bit_cast<float>(std::bit_cast<uint32_t>(magnitude) | sign);
  }
  if (exponent == 31) {  // a NaN comes out quiet, as the CPU's own conversion gives it
    const uint32_t quiet = fraction != 0 ? 0x400000u : 0u;
    return std::bit_cast<float>(sign | 0x7f800000u | quiet | fraction << 13);
  }
  return std::bit_cast<float>(sign | (exponent + 127 - 15) << 23 | fraction << 13);
}

uint16_t f32_to_f16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000);
  const uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) {
    return static_cast<uint16_t>(sign | 0x7e00 | ((magnitude >> 13) & 0x3ff));
  }
  // 65520 is halfway between the largest f16 and the step after it: from there on, infinity.
  if (magnitude >= std::bit_cast<uint32_t>(65520.0f)) return sign | 0x7c00;
  if (magnitude < std::bit_cast<uint32_t>(0x1.0p-14f)) {
    // Subnormal result: adding 0.5 puts the unit 2^-24 at the last bit of the sum, so the FPU's own
    // round to nearest even does the rounding.
    const float sum = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(sum) & 0x7ff));
  }
  const uint32_t odd = (magnitude >> 13) & 1;
  const uint32_t rounded = magnitude + 0xfff + odd - ((127u - 15u) << 23);
  return static_cast<uint16_t>(sign | rounded >> 13);
}

float bf16_to_f32(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

uint16_t f32_to_bf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffff) > 0x7f800000) return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

void decode(DType dtype, const std::byte* src, int64_t elements, float* dst) {
  const BlockFormat format = block_format(dtype);
  CHECK(elements >= 0 && elements % format.elements == 0);
  const BlockDecoder decode_block = decoder_of(dtype);
  for (int64_t i = 0; i < elements; i += format.elements) {
    decode_block(src, dst + i);
    src += format.bytes;
  }
}

}  // namespace ridge
