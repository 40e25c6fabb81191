// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/pack.h"

#include <cstring>

#include "base/check.h"
#include "tensor/codec.h"

namespace ridge {
namespace cpu {
namespace {

constexpr uint32_t kLowNibbles = 0x0f0f0f0f;
constexpr uint32_t kLowBits = 0x01010101;
constexpr uint32_t kLowPairs = 0x03030303;
constexpr int64_t kSuperCols = kSuperBlocks * kBlock;

bool is_raw(DType dtype) { return dtype == DType::q2_k || dtype == DType::q3_k; }

uint32_t word_at(const std::byte* p, int64_t i) {
  uint32_t w;
  std::memcpy(&w, p + 4 * i, 4);
  return w;
}

uint16_t half_at(const std::byte* p, int64_t i) {
  uint16_t h;
  std::memcpy(&h, p + 2 * i, 2);
  return h;
}

uint8_t byte_at(const std::byte* p, int64_t i) { return static_cast<uint8_t>(p[i]); }

// Where row `row` stands in one block being written.
struct BlockWriter {
  std::byte* super;
  std::byte* scales;
  std::byte* quants;
  int row;

  void word(int vector, uint32_t w) const { std::memcpy(quants + 64 * vector + 4 * row, &w, 4); }
  void half(int i, const std::byte* src) const { std::memcpy(scales + 32 * i + 2 * row, src, 2); }
  void super_half(int i, const std::byte* src) const {
    std::memcpy(super + 32 * i + 2 * row, src, 2);
  }
  void scale(int i, uint8_t value) const { scales[16 * i + row] = std::byte{value}; }
};

// Bits 4g .. 4g+3 of `bits` become bit g of the four bytes.
uint32_t bit_plane(uint32_t bits) {
  uint32_t plane = 0;
  for (int g = 0; g < kGroups; ++g) {
    // The product puts bit j of the nibble at 8j (and copies elsewhere, masked away).
    const uint32_t spread = (((bits >> (4 * g)) & 15) * 0x00204081u) & kLowBits;
    plane |= spread << g;
  }
  return plane;
}

// Q4_0, Q4_1, Q5_0, Q5_1, Q8_0. A 4-bit block of the file already pairs k with k + 16 in a byte.
void pack_simple(PackFormat f, const std::byte* src, const BlockWriter& out) {
  out.half(0, src);
  src += 2;
  if (f.has_min) {
    out.half(1, src);
    src += 2;
  }
  if (f.bits == 5) {
    out.word(4, bit_plane(word_at(src, 0)));
    src += 4;
  }
  for (int i = 0; i < (f.bits == 8 ? 8 : 4); ++i) out.word(i, word_at(src, i));
}

// Six-bit scales and mins of Q4_K and Q5_K: the upper two bits of the last four stand in the first
// eight bytes.
void put_scale_and_min(const std::byte* s, int64_t j, const BlockWriter& out) {
  if (j < 4) {
    out.scale(0, byte_at(s, j) & 63);
    out.scale(1, byte_at(s, j + 4) & 63);
  } else {
    out.scale(0, (byte_at(s, j + 4) & 15) | (byte_at(s, j - 4) >> 6 << 4));
    out.scale(1, (byte_at(s, j + 4) >> 4) | (byte_at(s, j) >> 6 << 4));
  }
}

// Two blocks share 32 bytes of nibbles, the even one in the low half.
void pack_q4_q5_k(PackFormat f, const std::byte* src, int64_t j, const BlockWriter& out) {
  out.super_half(0, src);
  out.super_half(1, src + 2);
  put_scale_and_min(src + 4, j, out);
  const std::byte* high = src + 16;
  const std::byte* low = (f.bits == 5 ? high + 32 : high) + 32 * (j / 2);
  const int shift = j % 2 ? 4 : 0;
  for (int i = 0; i < 4; ++i) {
    out.word(i, ((word_at(low, i) >> shift) & kLowNibbles) |
                    (((word_at(low, i + 4) >> shift) & kLowNibbles) << 4));
  }
  if (f.bits != 5) return;
  uint32_t plane = 0;
  for (int g = 0; g < kGroups; ++g) plane |= ((word_at(high, g) >> j) & kLowBits) << g;
  out.word(4, plane);
}

void pack_q6_k(const std::byte* src, int64_t j, const BlockWriter& out) {
  out.super_half(0, src + 208);
  out.scale(0, byte_at(src, 192 + 2 * j));
  out.scale(1, byte_at(src, 193 + 2 * j));
  // 128 values share 64 bytes of nibbles and 32 of bit pairs.
  const std::byte* low = src + 64 * (j / 4) + 32 * (j % 2);
  const std::byte* high = src + 128 + 32 * (j / 4);
  const int shift = j % 4 >= 2 ? 4 : 0;
  const int pair_shift = static_cast<int>(2 * (j % 4));
  uint32_t planes[2] = {0, 0};
  for (int i = 0; i < 4; ++i) {
    out.word(i, ((word_at(low, i) >> shift) & kLowNibbles) |
                    (((word_at(low, i + 4) >> shift) & kLowNibbles) << 4));
    planes[0] |= ((word_at(high, i) >> pair_shift) & kLowPairs) << (2 * i);
    planes[1] |= ((word_at(high, i + 4) >> pair_shift) & kLowPairs) << (2 * i);
  }
  out.word(4, planes[0]);
  out.word(5, planes[1]);
}

void pack_block_tile(const TensorView& w, int64_t row0, int64_t n_rows, std::byte* tile) {
  const PackFormat f = pack_format(w.dtype);
  const int64_t file_block = block_format(w.dtype).bytes;
  for (int64_t b = 0; b < w.cols / kBlock; ++b) {
    std::byte* block = tile + block_offset(f, b);
    for (int r = 0; r < n_rows; ++r) {
      const BlockWriter out{tile + super_offset(f, b), block, block + scale_bytes(f), r};
      const std::byte* src = w.row(row0 + r) + (f.is_super ? b / kSuperBlocks : b) * file_block;
      if (!f.is_super) {
        pack_simple(f, src, out);
      } else if (f.has_halves) {
        pack_q6_k(src, b % kSuperBlocks, out);
      } else {
        pack_q4_q5_k(f, src, b % kSuperBlocks, out);
      }
    }
  }
}

void pack_float_tile(const TensorView& w, int64_t row0, int64_t n_rows, std::byte* tile) {
  const int64_t size = bytes_of(w.dtype, 1);
  for (int64_t r = 0; r < n_rows; ++r) {
    const std::byte* src = w.row(row0 + r);
    for (int64_t k = 0; k < w.cols; ++k) {
      std::memcpy(tile + (k * kTileRows + r) * size, src + k * size, static_cast<size_t>(size));
    }
  }
}

// Rows [begin, end) of a block's quants.
void unpack_quants(PackFormat f, const std::byte* quants, int begin, int end, PlainBlock& out) {
  for (int g = 0; g < kGroups; ++g) {
    for (int i = 4 * begin; i < 4 * end; ++i) {
      int q;
      if (f.bits == 8) {
        q = static_cast<int8_t>(byte_at(quants, 64 * g + i));
      } else {
        q = (byte_at(quants, 64 * (g % 4) + i) >> (g / 4 * 4)) & 15;
        if (f.bits == 5) q |= ((byte_at(quants, 256 + i) >> g) & 1) << 4;
        if (f.bits == 6) q |= ((byte_at(quants, 256 + 64 * (g / 4) + i) >> (2 * (g % 4))) & 3) << 4;
      }
      out.q[g][i / 4][i % 4] = static_cast<int8_t>(q - f.offset);
    }
  }
}

void unpack_scales(PackFormat f, const std::byte* super, const std::byte* scales, int begin,
                   int end, PlainBlock& out) {
  for (int r = begin; r < end; ++r) {
    if (!f.is_super) {
      out.d[0][r] = out.d[1][r] = f16_to_f32(half_at(scales, r));
      out.m[r] = f.has_min ? f16_to_f32(half_at(scales + 32, r)) : 0;
      continue;
    }
    // Products of an f16 and a small integer are exact, so their order does not matter.
    const float d = f16_to_f32(half_at(super, r));
    if (f.has_halves) {
      out.d[0][r] = d * static_cast<int8_t>(byte_at(scales, r));
      out.d[1][r] = d * static_cast<int8_t>(byte_at(scales, 16 + r));
      out.m[r] = 0;
    } else {
      out.d[0][r] = out.d[1][r] = d * byte_at(scales, r);
      out.m[r] = -(f16_to_f32(half_at(super + 32, r)) * byte_at(scales, 16 + r));
    }
  }
}

void unpack_block_rows(PackFormat f, const std::byte* tile, int64_t block, int begin, int end,
                       PlainBlock& out) {
  const std::byte* scales = tile + block_offset(f, block);
  unpack_scales(f, tile + super_offset(f, block), scales, begin, end, out);
  unpack_quants(f, scales + scale_bytes(f), begin, end, out);
}

// One weight as a float from its packed float tile.
float float_at(DType dtype, const std::byte* tile, int64_t i) {
  if (dtype == DType::f16) return f16_to_f32(half_at(tile, i));
  if (dtype == DType::bf16) return bf16_to_f32(half_at(tile, i));
  float value;
  std::memcpy(&value, tile + 4 * i, 4);
  return value;
}

float value_of(PackFormat f, const PlainBlock& block, int64_t row, int64_t k) {
  const float product = block.d[k / 16][row] * block.q[k / 4][row][k % 4];
  return f.has_min ? product + block.m[row] : product;
}

void unpack_raw_panel(const PackedView& w, const std::byte* tile, int64_t k_begin, int64_t n,
                      float* out) {
  CHECK(k_begin % kSuperCols == 0 && n % kSuperCols == 0);
  const int64_t row_bytes = bytes_of(w.dtype, w.cols);
  float values[kSuperCols];
  for (int64_t r = 0; r < kTileRows; ++r) {
    for (int64_t k = 0; k < n; k += kSuperCols) {
      decode(w.dtype, tile + r * row_bytes + bytes_of(w.dtype, k_begin + k), kSuperCols, values);
      for (int64_t i = 0; i < kSuperCols; ++i) out[(k + i) * kTileRows + r] = values[i];
    }
  }
}

}  // namespace

int64_t tile_bytes(DType dtype, int64_t cols) {
  const PackFormat f = pack_format(dtype);
  if (f.bits == 0) return kTileRows * bytes_of(dtype, cols);
  return f.is_super ? cols / kSuperCols * super_bytes(f) : cols / kBlock * block_bytes(f);
}

void unpack_block(DType dtype, const std::byte* tile, int64_t block, PlainBlock& out) {
  unpack_block_rows(pack_format(dtype), tile, block, 0, kTileRows, out);
}

void unpack_panel(const PackedView& w, int64_t tile, int64_t k_begin, int64_t n, float* out) {
  const std::byte* data = w.data + tile * tile_bytes(w.dtype, w.cols);
  if (is_raw(w.dtype)) return unpack_raw_panel(w, data, k_begin, n, out);
  if (is_float(w.dtype)) {
    for (int64_t i = 0; i < n * kTileRows; ++i) {
      out[i] = float_at(w.dtype, data, k_begin * kTileRows + i);
    }
    return;
  }
  const PackFormat f = pack_format(w.dtype);
  PlainBlock block;
  for (int64_t k = 0; k < n; ++k) {
    if (k % kBlock == 0) unpack_block(w.dtype, data, (k_begin + k) / kBlock, block);
    for (int64_t r = 0; r < kTileRows; ++r) {
      out[k * kTileRows + r] = value_of(f, block, r, k % kBlock);
    }
  }
}

}  // namespace cpu

int64_t packed_bytes(DType dtype, int64_t rows, int64_t cols) {
  CHECK(rows >= 0 && cols % block_format(dtype).elements == 0);
  return (rows + kTileRows - 1) / kTileRows * cpu::tile_bytes(dtype, cols);
}

void pack_tiles(const TensorView& w, int64_t tile_begin, int64_t tile_end, std::byte* packed) {
  const int64_t bytes = cpu::tile_bytes(w.dtype, w.cols);
  for (int64_t t = tile_begin; t < tile_end; ++t) {
    std::byte* tile = packed + t * bytes;
    const int64_t row0 = t * kTileRows;
    const int64_t n_rows = w.rows - row0 < kTileRows ? w.rows - row0 : kTileRows;
    CHECK(n_rows > 0);
    if (n_rows < kTileRows) std::memset(tile, 0, static_cast<size_t>(bytes));
    if (cpu::is_raw(w.dtype)) {
      std::memcpy(tile, w.row(row0), static_cast<size_t>(n_rows * w.row_bytes()));
    } else if (is_float(w.dtype)) {
      cpu::pack_float_tile(w, row0, n_rows, tile);
    } else {
      cpu::pack_block_tile(w, row0, n_rows, tile);
    }
  }
}

void unpack_row(const PackedView& w, int64_t row, float* out) {
  CHECK(row >= 0 && row < w.rows);
  const std::byte* tile = w.data + row / kTileRows * cpu::tile_bytes(w.dtype, w.cols);
  const int64_t r = row % kTileRows;
  if (cpu::is_raw(w.dtype)) {
    decode(w.dtype, tile + r * bytes_of(w.dtype, w.cols), w.cols, out);
    return;
  }
  if (is_float(w.dtype)) {
    for (int64_t k = 0; k < w.cols; ++k) out[k] = cpu::float_at(w.dtype, tile, k * kTileRows + r);
    return;
  }
  const cpu::PackFormat f = cpu::pack_format(w.dtype);
  cpu::PlainBlock block;
  for (int64_t k = 0; k < w.cols; ++k) {
    if (k % cpu::kBlock == 0) {
      const int only = static_cast<int>(r);
      cpu::unpack_block_rows(f, tile, k / cpu::kBlock, only, only + 1, block);
    }
    out[k] = cpu::value_of(f, block, r, k % cpu::kBlock);
  }
}

bool takes_int8(DType dtype) { return cpu::pack_format(dtype).bits != 0; }

}  // namespace ridge
