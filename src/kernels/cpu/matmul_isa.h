// The families of matmul kernels and what they share: which rows and outputs one kernel call works
// on, and the loop over tiles and rows. Each family's code for its own instructions stands in a
// file of its own, all of it with internal linkage: no two ISAs share a symbol.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "kernels/cpu/pack.h"
#include "kernels/matmul.h"

namespace ridge::cpu {

extern const MatmulKernels kMatmulPlain;
extern const MatmulKernels kMatmulAvx2;        // on x86-64 only
extern const MatmulKernels kMatmulAvx512Vnni;  // on x86-64 only

// A few rows of int8 activations; all pointers are those of the first row.
struct Int8Rows {
  const int8_t* q8;
  const float* scale;
  const float* block_sum;
  const int32_t* half_sums;  // -32 * sum of each 16 q8, (rows, 2 * blocks); Q6_K only
  int64_t cols;
  int64_t blocks;
  const std::byte* weights_end;  // of this call's tiles: nothing behind it is worth prefetching
};

// A few rows of float activations, from the column that a panel starts at.
struct FloatRows {
  const float* x;
  int64_t cols;  // row stride
};

// Where one tile's results go: n <= kTileRows outputs of each row, added to what is there if
// `load`.
struct Output {
  float* y;
  int64_t stride;
  int n;
  bool load;
};

inline constexpr int64_t kFloatPanel = 256;            // columns; a panel is 16 KB of floats
inline constexpr int64_t kHalfSumCapacity = 16384;     // 64 KB per thread
inline constexpr int64_t kInt8RowsBytes = 256 * 1024;  // of x swept per tile: half of a usual L2
inline constexpr int64_t kFloatRowsBytes = 256 * 1024;

inline Output output_of(const PackedView& w, int64_t tile, float* y, int64_t stride, bool load) {
  const int64_t n = w.rows - tile * kTileRows;
  return {y + tile * kTileRows, stride, static_cast<int>(n < kTileRows ? n : kTileRows), load};
}

// K (one per ISA, with internal linkage) offers:
//   kMaxRows
//   int8_tile(dtype, rows, tile, Int8Rows, Output), rows <= kMaxRows
//   kHasTilePairs, and if so int8_tile_pair(dtype, rows, tiles[2], Int8Rows, Output[2]), any rows
//   half_sums(q8, n, out): -32 * the sum of each 16 of n values
//   float_panel(w, tile, k_begin, n, scratch): columns as floats (n, 16), in scratch or in place
//   float_tile(rows, panel, n, FloatRows, Output), rows <= kMaxRows

// Rows of x that are swept while a tile's weights are at hand.
template <class K>
int64_t int8_rows_at_once(const PackedView& w) {
  int64_t rows = kInt8RowsBytes / w.cols;
  if (rows < K::kMaxRows) rows = K::kMaxRows;
  if (pack_format(w.dtype).has_halves) {
    const int64_t fit = kHalfSumCapacity / (2 * (w.cols / kBlock));
    CHECK(fit > 0);
    if (rows > fit) rows = fit;
  }
  return rows < K::kMaxRows ? rows : rows / K::kMaxRows * K::kMaxRows;
}

template <class K>
void matmul_int8_tiles(const PackedView& w, const Activations& x, int64_t tile_begin,
                       int64_t tile_end, float* y, int64_t y_stride, bool accumulate) {
  alignas(64) static thread_local int32_t half_sums[kHalfSumCapacity];
  const int64_t blocks = w.cols / kBlock;
  const int64_t bytes = tile_bytes(w.dtype, w.cols);
  const auto rows_from = [&](int64_t r, int64_t r0) {
    return Int8Rows{x.q8 + r * w.cols,
                    x.scale + r * blocks,
                    x.block_sum + r * blocks,
                    half_sums + (r - r0) * 2 * blocks,
                    w.cols,
                    blocks,
                    w.data + tile_end * bytes};
  };
  const auto output = [&](int64_t t, int64_t r) {
    return output_of(w, t, y + r * y_stride, y_stride, accumulate);
  };
  const int64_t chunk = int8_rows_at_once<K>(w);
  for (int64_t r0 = 0; r0 < x.rows; r0 += chunk) {
    const int64_t r1 = r0 + chunk < x.rows ? r0 + chunk : x.rows;
    if (pack_format(w.dtype).has_halves) {
      K::half_sums(x.q8 + r0 * w.cols, (r1 - r0) * w.cols, half_sums);
    }
    int64_t t = tile_begin;
    if constexpr (K::kHasTilePairs) {
      for (; r1 - r0 > K::kMaxRows && t + 2 <= tile_end; t += 2) {
        const std::byte* const tiles[] = {w.data + t * bytes, w.data + (t + 1) * bytes};
        const Output out[] = {output(t, r0), output(t + 1, r0)};
        K::int8_tile_pair(w.dtype, r1 - r0, tiles, rows_from(r0, r0), out);
      }
    }
    for (; t < tile_end; ++t) {
      for (int64_t r = r0; r < r1; r += K::kMaxRows) {
        K::int8_tile(w.dtype, r1 - r < K::kMaxRows ? r1 - r : K::kMaxRows, w.data + t * bytes,
                     rows_from(r, r0), output(t, r));
      }
    }
  }
}

// The float_panel of a K that also offers, all from column k_begin on:
//   f16_panel(src, n, out), bf16_panel(src, n, out): src is the first column's
//   float_blocks<dtype>(tile, k_begin, n, out)
template <class K>
const float* panel_by_dtype(const PackedView& w, int64_t tile, int64_t k_begin, int64_t n,
                            float* scratch) {
  const std::byte* data = w.data + tile * tile_bytes(w.dtype, w.cols);
  switch (w.dtype) {
    case DType::f32:
      return reinterpret_cast<const float*>(data) + k_begin * kTileRows;
    case DType::f16:
      K::f16_panel(data + k_begin * 2 * kTileRows, n, scratch);
      break;
    case DType::bf16:
      K::bf16_panel(data + k_begin * 2 * kTileRows, n, scratch);
      break;
    case DType::q4_0:
      K::template float_blocks<DType::q4_0>(data, k_begin, n, scratch);
      break;
    case DType::q4_1:
      K::template float_blocks<DType::q4_1>(data, k_begin, n, scratch);
      break;
    case DType::q5_0:
      K::template float_blocks<DType::q5_0>(data, k_begin, n, scratch);
      break;
    case DType::q5_1:
      K::template float_blocks<DType::q5_1>(data, k_begin, n, scratch);
      break;
    case DType::q8_0:
      K::template float_blocks<DType::q8_0>(data, k_begin, n, scratch);
      break;
    case DType::q4_k:
      K::template float_blocks<DType::q4_k>(data, k_begin, n, scratch);
      break;
    case DType::q5_k:
      K::template float_blocks<DType::q5_k>(data, k_begin, n, scratch);
      break;
    case DType::q6_k:
      K::template float_blocks<DType::q6_k>(data, k_begin, n, scratch);
      break;
    case DType::q2_k:
    case DType::q3_k:
      unpack_panel(w, tile, k_begin, n, scratch);
      break;
  }
  return scratch;
}

template <class K>
void matmul_float_tiles(const PackedView& w, const Activations& x, int64_t tile_begin,
                        int64_t tile_end, float* y, int64_t y_stride, bool accumulate) {
  alignas(64) float scratch[kFloatPanel * kTileRows];
  int64_t chunk = kFloatRowsBytes / (4 * w.cols) / K::kMaxRows * K::kMaxRows;
  if (chunk < K::kMaxRows) chunk = K::kMaxRows;
  for (int64_t r0 = 0; r0 < x.rows; r0 += chunk) {
    const int64_t r1 = r0 + chunk < x.rows ? r0 + chunk : x.rows;
    for (int64_t t = tile_begin; t < tile_end; ++t) {
      for (int64_t k = 0; k < w.cols; k += kFloatPanel) {
        const int64_t n = w.cols - k < kFloatPanel ? w.cols - k : kFloatPanel;
        const float* panel = K::float_panel(w, t, k, n, scratch);
        for (int64_t r = r0; r < r1; r += K::kMaxRows) {
          K::float_tile(r1 - r < K::kMaxRows ? r1 - r : K::kMaxRows, panel, n,
                        FloatRows{x.f32 + r * w.cols + k, w.cols},
                        output_of(w, t, y + r * y_stride, y_stride, accumulate || k > 0));
        }
      }
    }
  }
}

template <class K>
void matmul_tiles(const PackedView& w, const Activations& x, int64_t tile_begin, int64_t tile_end,
                  float* y, int64_t y_stride, bool accumulate) {
  CHECK(x.cols == w.cols && y_stride >= w.rows);
  CHECK(tile_begin >= 0 && tile_end <= w.tiles());
  if (x.f32 != nullptr) {
    matmul_float_tiles<K>(w, x, tile_begin, tile_end, y, y_stride, accumulate);
  } else {
    CHECK(takes_int8(w.dtype) && x.q8 != nullptr);
    matmul_int8_tiles<K>(w, x, tile_begin, tile_end, y, y_stride, accumulate);
  }
}

}  // namespace ridge::cpu
