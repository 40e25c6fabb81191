// The layout of packed weights, the same for every ISA: tiles of 16 rows; in each, blocks of 32
// columns (k); in each, groups of 4 consecutive k for the 16 rows side by side, 64 bytes. So one
// 512-bit vector holds 16 rows x 4 k as bytes, and its 16 products need no horizontal sum.
// The invariant: packing moves bits, it never changes a value.
//
// A block of bits 4, 5, 6: 4 x 64 bytes of nibbles (vector i: group i low, group i + 4 high), then
// a plane of the upper bits: 5: 64 bytes, bit g for group g; 6: 2 x 64 bytes, vector g / 4 holds
// group g's two bits at 2 * (g % 4). A block of 8 bits: 8 x 64 bytes. In front of it its scales:
//   Q4_0 Q4_1 Q5_0 Q5_1 Q8_0: 16 x f16 d, and 16 x f16 m where the format has one
//   Q4_K Q5_K: 16 x u8 scale, 16 x u8 min, and once per 8 blocks 16 x f16 d, 16 x f16 dmin
//   Q6_K: 16 x i8 scale of k 0-15, 16 x i8 scale of k 16-31, and once per 8 blocks 16 x f16 d
// Floats: (cols, 16) in their own type. Q2_K and Q3_K: the 16 rows as the file has them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/matmul.h"
#include "tensor/dtype.h"

namespace ridge::cpu {

inline constexpr int64_t kBlock = kActivationBlock;
inline constexpr int64_t kSuperBlocks = 8;  // blocks of 32 in a super-block of the K formats
inline constexpr int kGroups = 8;           // groups of 4 k in a block
inline constexpr int kGroupBytes = 64;      // 16 rows x 4 k

// How a block format stores a weight: d * (q - offset) + m.
struct PackFormat {
  int bits = 0;             // of q; 0: not packed in blocks
  int offset = 0;           // subtracted from the stored unsigned q (8 bits are stored signed)
  bool has_min = false;     // an m per block
  bool is_super = false;    // scales of scales, per 8 blocks
  bool has_halves = false;  // a scale per 16 k
};

constexpr PackFormat pack_format(DType dtype) {
  switch (dtype) {
    case DType::q4_0:
      return {.bits = 4, .offset = 8};
    case DType::q4_1:
      return {.bits = 4, .has_min = true};
    case DType::q5_0:
      return {.bits = 5, .offset = 16};
    case DType::q5_1:
      return {.bits = 5, .has_min = true};
    case DType::q8_0:
      return {.bits = 8};
    case DType::q4_k:
      return {.bits = 4, .has_min = true, .is_super = true};
    case DType::q5_k:
      return {.bits = 5, .has_min = true, .is_super = true};
    case DType::q6_k:
      return {.bits = 6, .offset = 32, .is_super = true, .has_halves = true};
    default:
      return {};
  }
}

// Bytes of a block's scales, of a whole block, and of what precedes 8 blocks.
constexpr int64_t scale_bytes(PackFormat f) { return f.is_super || !f.has_min ? 32 : 64; }
constexpr int64_t block_bytes(PackFormat f) { return scale_bytes(f) + 64 * f.bits; }
constexpr int64_t super_header_bytes(PackFormat f) {
  return f.is_super ? (f.has_min ? 64 : 32) : 0;
}
constexpr int64_t super_bytes(PackFormat f) {
  return super_header_bytes(f) + kSuperBlocks * block_bytes(f);
}

// Where block b of a tile starts, and the header of the super-block it is in.
constexpr int64_t block_offset(PackFormat f, int64_t b) {
  return f.is_super ? b / kSuperBlocks * super_bytes(f) + super_header_bytes(f) +
                          b % kSuperBlocks * block_bytes(f)
                    : b * block_bytes(f);
}
constexpr int64_t super_offset(PackFormat f, int64_t b) {
  return b / kSuperBlocks * super_bytes(f);
}

int64_t tile_bytes(DType dtype, int64_t cols);

// One unpacked block: value(row, k) = d[k / 16][row] * q[k / 4][row][k % 4] (+ m[row]). q is
// signed, the format's offset subtracted.
struct PlainBlock {
  int8_t q[kGroups][kTileRows][4];
  float d[2][kTileRows];
  float m[kTileRows];
};
void unpack_block(DType dtype, const std::byte* tile, int64_t block, PlainBlock& out);

// Columns [k_begin, k_begin + n) of one tile as floats. out: (n, kTileRows). For block formats
// k_begin must be a block's start; for Q2_K and Q3_K both must be multiples of 256.
void unpack_panel(const PackedView& w, int64_t tile, int64_t k_begin, int64_t n, float* out);

}  // namespace ridge::cpu
