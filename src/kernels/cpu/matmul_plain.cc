// The family that runs everywhere: portable loops over the packed layout. Also what the others fall
// back to for formats that they have no code for.
// SPDX-License-Identifier: Apache-2.0
#include <bit>
#include <cmath>

#include "kernels/cpu/matmul_isa.h"

namespace ridge::cpu {
namespace {

struct PlainKernel {
  static constexpr int64_t kMaxRows = 8;
  static constexpr bool kHasTilePairs = false;

  static void half_sums(const int8_t*, int64_t, int32_t*) {}

  static void begin(int64_t rows, const Output& out, float acc[][kTileRows]) {
    for (int64_t r = 0; r < rows; ++r) {
      for (int i = 0; i < kTileRows; ++i) {
        acc[r][i] = out.load && i < out.n ? out.y[r * out.stride + i] : 0;
      }
    }
  }
  static void end(int64_t rows, const float acc[][kTileRows], const Output& out) {
    for (int64_t r = 0; r < rows; ++r) {
      for (int i = 0; i < out.n; ++i) out.y[r * out.stride + i] = acc[r][i];
    }
  }

  // dots[h][i]: tile row i's integer dot product over half h of the block.
  static void dot(const PlainBlock& w, const int8_t* x, int32_t dots[2][kTileRows]) {
    for (int g = 0; g < kGroups; ++g) {
      for (int i = 0; i < kTileRows; ++i) {
        int32_t sum = g % 4 ? dots[g / 4][i] : 0;
        for (int j = 0; j < 4; ++j) sum += w.q[g][i][j] * x[4 * g + j];
        dots[g / 4][i] = sum;
      }
    }
  }

  static void int8_tile(DType dtype, int64_t rows, const std::byte* tile, const Int8Rows& x,
                        const Output& out) {
    const PackFormat f = pack_format(dtype);
    float acc[kMaxRows][kTileRows];
    begin(rows, out, acc);
    PlainBlock w;
    for (int64_t b = 0; b < x.blocks; ++b) {
      unpack_block(dtype, tile, b, w);
      for (int64_t r = 0; r < rows; ++r) {
        int32_t dots[2][kTileRows];
        dot(w, x.q8 + r * x.cols + b * kBlock, dots);
        const float scale = x.scale[r * x.blocks + b];
        const float block_sum = x.block_sum[r * x.blocks + b];
        for (int i = 0; i < kTileRows; ++i) {
          if (f.has_halves) {
            acc[r][i] += w.d[0][i] * (static_cast<float>(dots[0][i]) * scale);
            acc[r][i] += w.d[1][i] * (static_cast<float>(dots[1][i]) * scale);
          } else {
            acc[r][i] += w.d[0][i] * (static_cast<float>(dots[0][i] + dots[1][i]) * scale);
          }
          if (f.has_min) acc[r][i] += w.m[i] * block_sum;
        }
      }
    }
    end(rows, acc, out);
  }

  static const float* float_panel(const PackedView& w, int64_t tile, int64_t k_begin, int64_t n,
                                  float* scratch) {
    unpack_panel(w, tile, k_begin, n, scratch);
    return scratch;
  }

  static void float_tile(int64_t rows, const float* panel, int64_t n, const FloatRows& x,
                         const Output& out) {
    float acc[kMaxRows][kTileRows];
    begin(rows, out, acc);
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t k = 0; k < n; ++k) {
        const float value = x.x[r * x.cols + k];
        for (int i = 0; i < kTileRows; ++i) acc[r][i] += panel[k * kTileRows + i] * value;
      }
    }
    end(rows, acc, out);
  }
};

void quantize(const float* x, int64_t rows, int64_t cols, int8_t* q8, float* scale,
              float* block_sum) {
  for (int64_t b = 0; b < rows * cols / kBlock; ++b, x += kBlock, q8 += kBlock) {
    // As integers, magnitudes sort as floats do, and a NaN sorts above all.
    uint32_t max_bits = 0;
    for (int i = 0; i < kBlock; ++i) {
      const uint32_t bits = std::bit_cast<uint32_t>(x[i]) & 0x7fffffffu;
      max_bits = bits > max_bits ? bits : max_bits;
    }
    const float amax = std::bit_cast<float>(max_bits);
    const bool finite = std::isfinite(amax);
    const bool live = finite && amax >= kSmallestQuantizedMax;
    scale[b] = live ? amax / 127 : (finite ? 0 : amax);
    const float inverse = live ? 127 / amax : 0;
    int32_t sum = 0;
    for (int i = 0; i < kBlock; ++i) {
      q8[i] = live ? static_cast<int8_t>(std::nearbyint(x[i] * inverse)) : int8_t{0};
      sum += q8[i];
    }
    block_sum[b] = scale[b] * static_cast<float>(sum);
  }
}

}  // namespace

const MatmulKernels kMatmulPlain = {quantize, matmul_tiles<PlainKernel>};

}  // namespace ridge::cpu
