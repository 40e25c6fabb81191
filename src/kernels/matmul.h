// y = x W^T for weights of every dtype, with the weights repacked once into tiles of kTileRows rows
// that are streamed side by side. Each output is summed over k in one fixed order, whatever the
// number of rows of x, threads or tiles: a row's result never depends on its neighbours.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/cpu_info.h"
#include "tensor/view.h"

namespace ridge {

// Weight rows that are interleaved. The layout is the same for every ISA.
inline constexpr int64_t kTileRows = 16;
// Activations are quantised to int8 in blocks of so many, each with a scale of its own.
inline constexpr int64_t kActivationBlock = 32;
// A block whose largest magnitude is below this is quantised to zeros: 127 / max must stay finite.
inline constexpr float kSmallestQuantizedMax = 0x1p-100f;

// A repacked (rows, cols) weight. `dtype` is that of the file: repacking changes no value.
struct PackedView {
  const std::byte* data = nullptr;
  DType dtype = DType::f32;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t tiles() const { return (rows + kTileRows - 1) / kTileRows; }
};

int64_t packed_bytes(DType dtype, int64_t rows, int64_t cols);
// Repacks tiles [tile_begin, tile_end) of `w` into `packed` (the whole buffer); disjoint ranges may
// run at the same time. Rows past the end are zero.
void pack_tiles(const TensorView& w, int64_t tile_begin, int64_t tile_end, std::byte* packed);
// One weight row as floats, exactly as decode() gives it. out: (cols)
void unpack_row(const PackedView& w, int64_t row, float* out);

// What the multiply reads: either floats, or int8 blocks with scale and scaled sum.
struct Activations {
  int64_t rows = 0;
  int64_t cols = 0;
  const float* f32 = nullptr;        // (rows, cols); null when quantised
  const int8_t* q8 = nullptr;        // (rows, cols)
  const float* scale = nullptr;      // (rows, cols / kActivationBlock): x = scale * q8
  const float* block_sum = nullptr;  // (rows, cols / kActivationBlock): scale * sum of q8
};

// True if `dtype` weights are multiplied with int8 activations in fast mode (all block formats that
// have a fast path); float weights always take float activations.
bool takes_int8(DType dtype);

struct MatmulKernels {
  // Quantises rows of x (rows, cols) to int8 in -127..127: scale = max|x| / 127 per block, q8 = x *
  // (127 / max|x|) rounded to nearest even, the same bits on every ISA. A block that holds a NaN or
  // an infinity gets zeros, that value as its scale and a NaN as its block_sum.
  void (*quantize)(const float* x, int64_t rows, int64_t cols, int8_t* q8, float* scale,
                   float* block_sum);
  // y[r][n] (+)= sum over k of x[r][k] w[n][k], for all rows r and the outputs n of tiles
  // [tile_begin, tile_end). y: (x.rows, y_stride), only those outputs are written.
  void (*matmul)(const PackedView& w, const Activations& x, int64_t tile_begin, int64_t tile_end,
                 float* y, int64_t y_stride, bool accumulate);
};

const MatmulKernels& matmul_kernels(Isa isa);

namespace reference {
// The plain twins: row-major weights as the file holds them, one output at a time.
void matmul(const TensorView& w, const float* x, int64_t rows, float* y, bool accumulate);
// The same with activations quantised as the fast path does.
void matmul_int8(const TensorView& w, const float* x, int64_t rows, float* y, bool accumulate);
}  // namespace reference

}  // namespace ridge
