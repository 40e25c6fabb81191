// The AVX-512 VNNI family. A vector holds 4 columns of all 16 rows of a tile as bytes; vpdpbusd
// multiplies them with 4 broadcast activations. Weights are kept unsigned (offset formats: the
// offset times the activations' sum is taken off afterwards), activations signed.
// The invariant: an output's float additions are the same instructions in the same order whatever
// the number of rows; only integer sums, which are exact, are cut differently.
// SPDX-License-Identifier: Apache-2.0
#if defined(__x86_64__)
#if !defined(__clang__)
// g++ 12 takes the don't-care operands of its own intrinsics for uninitialised variables.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif
#include <immintrin.h>

#include <cstring>

#include "kernels/cpu/matmul_isa.h"

#if defined(__clang__)
#pragma clang attribute push(                                                                   \
        __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c"))), \
            apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")
#endif

namespace ridge::cpu {
namespace {

// How far ahead of use weights are asked for, into the L2 cache. On a Xeon with 2 MB of L2 8 KB
// reached 97 % of the plain read rate, 2 KB into L1 some 85 %, and 12 KB no more (2026-11).
constexpr int64_t kPrefetchBytes = 8192;

inline void prefetch(const std::byte* p) {
  _mm_prefetch(reinterpret_cast<const char*>(p + kPrefetchBytes), _MM_HINT_T1);
}

inline __m512 halves_at(const std::byte* p) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
inline __m512 unsigned_bytes_at(const std::byte* p) {
  return _mm512_cvtepi32_ps(
      _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
}
inline __m512 signed_bytes_at(const std::byte* p) {
  return _mm512_cvtepi32_ps(
      _mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
}

// Scales of one block: value = d[h] * unsigned q + m (with halves, m is not set: the offset is
// taken off as an integer).
struct Scales {
  __m512 d[2];
  __m512 m;
};

template <DType kDType>
inline Scales load_scales(const std::byte* super, const std::byte* scales) {
  constexpr PackFormat kF = pack_format(kDType);
  Scales s;
  if constexpr (!kF.is_super) {
    s.d[0] = halves_at(scales);
    if constexpr (kF.has_min) {
      s.m = halves_at(scales + 32);
    } else {
      s.m = _mm512_mul_ps(s.d[0], _mm512_set1_ps(kF.bits == 8 ? -128.0f : -kF.offset));
    }
  } else if constexpr (kF.has_halves) {
    const __m512 d = halves_at(super);
    s.d[0] = _mm512_mul_ps(d, signed_bytes_at(scales));
    s.d[1] = _mm512_mul_ps(d, signed_bytes_at(scales + 16));
  } else {
    s.d[0] = _mm512_mul_ps(halves_at(super), unsigned_bytes_at(scales));
    const __m512 min = _mm512_mul_ps(halves_at(super + 32), unsigned_bytes_at(scales + 16));
    s.m = _mm512_xor_ps(min, _mm512_set1_ps(-0.0f));
  }
  return s;
}

inline __m512i load(const std::byte* p) { return _mm512_loadu_si512(p); }

// w | (bits & mask)
inline __m512i or_masked(__m512i w, __m512i bits, __m512i mask) {
  return _mm512_ternarylogic_epi32(w, bits, mask, 0xf8);
}

// The block's quants, unsigned, one vector per group.
template <DType kDType>
inline void load_quants(const std::byte* p, __m512i w[kGroups]) {
  constexpr int kBits = pack_format(kDType).bits;
  if constexpr (kBits == 8) {
    const __m512i sign = _mm512_set1_epi8(-128);
#pragma GCC unroll 8
    for (int g = 0; g < kGroups; ++g) w[g] = _mm512_xor_si512(load(p + 64 * g), sign);
    return;
  }
  const __m512i nibble = _mm512_set1_epi8(15);
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const __m512i both = load(p + 64 * i);
    w[i] = _mm512_and_si512(both, nibble);
    w[i + 4] = _mm512_and_si512(_mm512_srli_epi16(both, 4), nibble);
  }
  if constexpr (kBits == 5) {
    const __m512i mask = _mm512_set1_epi8(16);
    const __m512i plane = load(p + 256);
    w[0] = or_masked(w[0], _mm512_slli_epi16(plane, 4), mask);
    w[1] = or_masked(w[1], _mm512_slli_epi16(plane, 3), mask);
    w[2] = or_masked(w[2], _mm512_slli_epi16(plane, 2), mask);
    w[3] = or_masked(w[3], _mm512_slli_epi16(plane, 1), mask);
    w[4] = or_masked(w[4], plane, mask);
    w[5] = or_masked(w[5], _mm512_srli_epi16(plane, 1), mask);
    w[6] = or_masked(w[6], _mm512_srli_epi16(plane, 2), mask);
    w[7] = or_masked(w[7], _mm512_srli_epi16(plane, 3), mask);
  }
  if constexpr (kBits == 6) {
    const __m512i mask = _mm512_set1_epi8(48);
#pragma GCC unroll 2
    for (int h = 0; h < 2; ++h) {
      const __m512i plane = load(p + 256 + 64 * h);
      w[4 * h] = or_masked(w[4 * h], _mm512_slli_epi16(plane, 4), mask);
      w[4 * h + 1] = or_masked(w[4 * h + 1], _mm512_slli_epi16(plane, 2), mask);
      w[4 * h + 2] = or_masked(w[4 * h + 2], plane, mask);
      w[4 * h + 3] = or_masked(w[4 * h + 3], _mm512_srli_epi16(plane, 2), mask);
    }
  }
}

inline __m512i broadcast4(const int8_t* p) {
  int32_t word;
  std::memcpy(&word, p, 4);
  return _mm512_set1_epi32(word);
}

// Adds the dot products of groups [kBegin, kBegin + kCount) to each row's sums. Neighbouring
// instructions are of different rows: a row's own wait for each other.
template <int kBegin, int kCount, int kRows>
inline void dot(const __m512i w[kGroups], const int8_t* x, int64_t stride, __m512i sums[kRows]) {
#pragma GCC unroll 8
  for (int g = kBegin; g < kBegin + kCount; ++g) {
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      sums[r] = _mm512_dpbusd_epi32(sums[r], w[g], broadcast4(x + r * stride + 4 * g));
    }
  }
}

inline __mmask16 mask_of(int n) { return static_cast<__mmask16>((1u << n) - 1); }

template <int kRows>
inline void load_output(const Output& out, __m512 acc[kRows]) {
  const __mmask16 mask = mask_of(out.n);
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    acc[r] = out.load ? _mm512_maskz_loadu_ps(mask, out.y + r * out.stride) : _mm512_setzero_ps();
  }
}

template <int kRows>
inline void store_output(const __m512 acc[kRows], const Output& out) {
  const __mmask16 mask = mask_of(out.n);
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) _mm512_mask_storeu_ps(out.y + r * out.stride, mask, acc[r]);
}

// acc += m * block_sum for each row.
template <int kRows>
inline void add_min(__m512 m, const float* block_sum, int64_t stride, __m512 acc[kRows]) {
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    acc[r] = _mm512_fmadd_ps(m, _mm512_set1_ps(block_sum[r * stride]), acc[r]);
  }
}

// acc += d * (scale * sum) for each row.
template <int kRows>
inline void add_scaled(const __m512i sums[kRows], __m512 d, const float* scale, int64_t stride,
                       __m512 acc[kRows]) {
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    const __m512 f = _mm512_mul_ps(_mm512_cvtepi32_ps(sums[r]), _mm512_set1_ps(scale[r * stride]));
    acc[r] = _mm512_fmadd_ps(d, f, acc[r]);
  }
}

// Block b's contribution to the 16 outputs of each row.
template <DType kDType, int kRows>
inline void add_block(const __m512i w[kGroups], const Scales& s, const Int8Rows& x, int64_t b,
                      __m512 acc[kRows]) {
  const int8_t* q8 = x.q8 + b * kBlock;
  __m512i sums[kRows];
  if constexpr (pack_format(kDType).has_halves) {
    const int32_t* half_sums = x.half_sums + 2 * b;
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) sums[r] = _mm512_set1_epi32(half_sums[r * 2 * x.blocks]);
    dot<0, 4, kRows>(w, q8, x.cols, sums);
    add_scaled<kRows>(sums, s.d[0], x.scale + b, x.blocks, acc);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) sums[r] = _mm512_set1_epi32(half_sums[r * 2 * x.blocks + 1]);
    dot<4, 4, kRows>(w, q8, x.cols, sums);
    add_scaled<kRows>(sums, s.d[1], x.scale + b, x.blocks, acc);
  } else {
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) sums[r] = _mm512_setzero_si512();
    dot<0, 8, kRows>(w, q8, x.cols, sums);
    add_scaled<kRows>(sums, s.d[0], x.scale + b, x.blocks, acc);
    add_min<kRows>(s.m, x.block_sum + b, x.blocks, acc);
  }
}

template <DType kDType, int kRows>
void int8_rows(const std::byte* tile, const Int8Rows& x, const Output& out) {
  constexpr PackFormat kF = pack_format(kDType);
  __m512 acc[kRows];
  load_output<kRows>(out, acc);
  const std::byte* block = tile;
  const std::byte* super = tile;
  for (int64_t b = 0; b < x.blocks; ++b) {
    if (kF.is_super && b % kSuperBlocks == 0) {
      super = block;
      block += super_header_bytes(kF);
    }
    if (kRows == 1 && x.weights_end - block > kPrefetchBytes) {
      for (int64_t i = 0; i < block_bytes(kF); i += 64) prefetch(block + i);
    }
    const Scales s = load_scales<kDType>(super, block);
    __m512i w[kGroups];
    load_quants<kDType>(block + scale_bytes(kF), w);
    add_block<kDType, kRows>(w, s, x, b, acc);
    block += block_bytes(kF);
  }
  store_output<kRows>(acc, out);
}

Int8Rows skip_rows(Int8Rows x, int64_t n) {
  x.q8 += n * x.cols;
  x.scale += n * x.blocks;
  x.block_sum += n * x.blocks;
  x.half_sums += n * 2 * x.blocks;
  return x;
}

Output skip_rows(Output out, int64_t n) {
  out.y += n * out.stride;
  return out;
}

// Any number of rows up to 8, as 8, 4, 2 and 1.
template <DType kDType>
void int8_tile_of(int64_t rows, const std::byte* tile, const Int8Rows& x, const Output& out) {
  if (rows == 8) return int8_rows<kDType, 8>(tile, x, out);
  int64_t done = 0;
  if (rows & 4) {
    int8_rows<kDType, 4>(tile, x, out);
    done = 4;
  }
  if (rows & 2) {
    int8_rows<kDType, 2>(tile, skip_rows(x, done), skip_rows(out, done));
    done += 2;
  }
  if (rows & 1) int8_rows<kDType, 1>(tile, skip_rows(x, done), skip_rows(out, done));
}

// Many rows: two tiles are unpacked side by side for a stretch of columns that fits in the L1
// cache, then rows sweep over them six at a time, each broadcast activation used for both tiles.
constexpr int64_t kPanelBlocks = 16;
constexpr int kPanelTiles = 2;
constexpr int kPanelRows = 6;

struct Int8Panel {
  alignas(64) std::byte q[kPanelTiles][kPanelBlocks][kGroups * kGroupBytes];
  alignas(64) float d[2][kPanelTiles][kPanelBlocks][kTileRows];
  alignas(64) float m[kPanelTiles][kPanelBlocks][kTileRows];
};

template <DType kDType>
void unpack_tile(const std::byte* tile, int64_t b0, int64_t n, int t, Int8Panel& panel) {
  constexpr PackFormat kF = pack_format(kDType);
  for (int64_t i = 0; i < n; ++i) {
    const std::byte* block = tile + block_offset(kF, b0 + i);
    const Scales s = load_scales<kDType>(tile + super_offset(kF, b0 + i), block);
    _mm512_store_ps(panel.d[0][t][i], s.d[0]);
    if constexpr (kF.has_halves) {
      _mm512_store_ps(panel.d[1][t][i], s.d[1]);
    } else {
      _mm512_store_ps(panel.m[t][i], s.m);
    }
    __m512i w[kGroups];
    load_quants<kDType>(block + scale_bytes(kF), w);
#pragma GCC unroll 8
    for (int g = 0; g < kGroups; ++g) _mm512_store_si512(panel.q[t][i] + 64 * g, w[g]);
  }
}

// sums += the dot products of groups [kBegin, kBegin + kCount) of block i of both tiles.
template <int kBegin, int kCount, int kRows>
inline void panel_dot(const Int8Panel& panel, int64_t i, const int8_t* x, int64_t stride,
                      __m512i sums[kPanelTiles][kRows]) {
#pragma GCC unroll 8
  for (int g = kBegin; g < kBegin + kCount; ++g) {
    const __m512i w0 = load(panel.q[0][i] + 64 * g);
    const __m512i w1 = load(panel.q[1][i] + 64 * g);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const __m512i x4 = broadcast4(x + r * stride + 4 * g);
      sums[0][r] = _mm512_dpbusd_epi32(sums[0][r], w0, x4);
      sums[1][r] = _mm512_dpbusd_epi32(sums[1][r], w1, x4);
    }
  }
}

template <int kRows>
inline void set_sums(const int32_t* start, int64_t stride, __m512i sums[kPanelTiles][kRows]) {
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    sums[0][r] = sums[1][r] =
        start != nullptr ? _mm512_set1_epi32(start[r * stride]) : _mm512_setzero_si512();
  }
}

template <bool kHalves, int kRows>
void panel_rows(const Int8Panel& panel, int64_t n, const Int8Rows& x, const Output* out) {
  __m512 acc[kPanelTiles][kRows];
  for (int t = 0; t < kPanelTiles; ++t) load_output<kRows>(out[t], acc[t]);
  for (int64_t i = 0; i < n; ++i) {
    const int8_t* q8 = x.q8 + i * kBlock;
    __m512i sums[kPanelTiles][kRows];
    if constexpr (kHalves) {
      const int32_t* half_sums = x.half_sums + 2 * i;
      set_sums<kRows>(half_sums, 2 * x.blocks, sums);
      panel_dot<0, 4, kRows>(panel, i, q8, x.cols, sums);
      for (int t = 0; t < kPanelTiles; ++t) {
        const __m512 d = _mm512_load_ps(panel.d[0][t][i]);
        add_scaled<kRows>(sums[t], d, x.scale + i, x.blocks, acc[t]);
      }
      set_sums<kRows>(half_sums + 1, 2 * x.blocks, sums);
      panel_dot<4, 4, kRows>(panel, i, q8, x.cols, sums);
    } else {
      set_sums<kRows>(nullptr, 0, sums);
      panel_dot<0, 8, kRows>(panel, i, q8, x.cols, sums);
    }
    for (int t = 0; t < kPanelTiles; ++t) {
      const __m512 d = _mm512_load_ps(panel.d[kHalves ? 1 : 0][t][i]);
      add_scaled<kRows>(sums[t], d, x.scale + i, x.blocks, acc[t]);
      if constexpr (!kHalves) {
        add_min<kRows>(_mm512_load_ps(panel.m[t][i]), x.block_sum + i, x.blocks, acc[t]);
      }
    }
  }
  for (int t = 0; t < kPanelTiles; ++t) store_output<kRows>(acc[t], out[t]);
}

template <bool kHalves>
void sweep_panel(const Int8Panel& panel, int64_t n, int64_t rows, const Int8Rows& x,
                 const Output* out) {
  for (int64_t r = 0; r < rows; r += kPanelRows) {
    const Int8Rows part = skip_rows(x, r);
    const Output parts[] = {skip_rows(out[0], r), skip_rows(out[1], r)};
    switch (rows - r) {
      case 1:
        panel_rows<kHalves, 1>(panel, n, part, parts);
        break;
      case 2:
        panel_rows<kHalves, 2>(panel, n, part, parts);
        break;
      case 3:
        panel_rows<kHalves, 3>(panel, n, part, parts);
        break;
      case 4:
        panel_rows<kHalves, 4>(panel, n, part, parts);
        break;
      case 5:
        panel_rows<kHalves, 5>(panel, n, part, parts);
        break;
      default:
        panel_rows<kHalves, kPanelRows>(panel, n, part, parts);
        break;
    }
  }
}

// The outputs of two tiles for any number of rows.
template <DType kDType>
void int8_tile_pair_of(int64_t rows, const std::byte* const* tiles, const Int8Rows& x,
                       const Output* out) {
  Int8Panel panel;
  Output parts[] = {out[0], out[1]};
  for (int64_t b = 0; b < x.blocks; b += kPanelBlocks) {
    const int64_t n = x.blocks - b < kPanelBlocks ? x.blocks - b : kPanelBlocks;
    for (int t = 0; t < kPanelTiles; ++t) unpack_tile<kDType>(tiles[t], b, n, t, panel);
    Int8Rows at = x;
    at.q8 += b * kBlock;
    at.scale += b;
    at.block_sum += b;
    at.half_sums += 2 * b;
    sweep_panel<pack_format(kDType).has_halves>(panel, n, rows, at, parts);
    parts[0].load = parts[1].load = true;
  }
}

// Block b of a tile as floats, (32, 16). The steps are exact: as decode() rounds, so does this.
template <DType kDType>
void float_block(const std::byte* tile, int64_t b, float* out) {
  constexpr PackFormat kF = pack_format(kDType);
  const std::byte* block = tile + block_offset(kF, b);
  const Scales s = load_scales<kDType>(tile + super_offset(kF, b), block);
  __m512i w[kGroups];
  load_quants<kDType>(block + scale_bytes(kF), w);
  const __m512i byte = _mm512_set1_epi32(255);
  for (int g = 0; g < kGroups; ++g) {
    const __m512 d = s.d[kF.has_halves ? g / 4 : 0];
    const __m512 m = kF.has_halves ? _mm512_mul_ps(d, _mm512_set1_ps(-32.0f)) : s.m;
    __m512i q = w[g];
    for (int j = 0; j < 4; ++j) {
      const __m512 value = _mm512_cvtepi32_ps(_mm512_and_si512(q, byte));
      _mm512_storeu_ps(out + (4 * g + j) * kTileRows, _mm512_fmadd_ps(value, d, m));
      q = _mm512_srli_epi32(q, 8);
    }
  }
}

// Even and odd k are summed apart, for more additions in flight.
template <int kRows>
void float_rows(const float* panel, int64_t n, const FloatRows& x, const Output& out) {
  __m512 even[kRows], odd[kRows];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) even[r] = odd[r] = _mm512_setzero_ps();
  int64_t k = 0;
  for (; k + 2 <= n; k += 2) {
    const __m512 w0 = _mm512_loadu_ps(panel + k * kTileRows);
    const __m512 w1 = _mm512_loadu_ps(panel + (k + 1) * kTileRows);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      even[r] = _mm512_fmadd_ps(w0, _mm512_set1_ps(x.x[r * x.cols + k]), even[r]);
      odd[r] = _mm512_fmadd_ps(w1, _mm512_set1_ps(x.x[r * x.cols + k + 1]), odd[r]);
    }
  }
  if (k < n) {
    const __m512 w0 = _mm512_loadu_ps(panel + k * kTileRows);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      even[r] = _mm512_fmadd_ps(w0, _mm512_set1_ps(x.x[r * x.cols + k]), even[r]);
    }
  }
  const __mmask16 mask = mask_of(out.n);
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    float* y = out.y + r * out.stride;
    const __m512 before = out.load ? _mm512_maskz_loadu_ps(mask, y) : _mm512_setzero_ps();
    _mm512_mask_storeu_ps(y, mask, _mm512_add_ps(before, _mm512_add_ps(even[r], odd[r])));
  }
}

struct Avx512Kernel {
  static constexpr int64_t kMaxRows = 8;
  static constexpr bool kHasTilePairs = true;

  static void half_sums(const int8_t* q8, int64_t n, int32_t* out) {
    const __m512i offset = _mm512_set1_epi8(32);
    for (int64_t i = 0; i < n; i += 64) {
      __m512i sum = _mm512_dpbusd_epi32(_mm512_setzero_si512(), offset, _mm512_loadu_si512(q8 + i));
      sum = _mm512_add_epi32(sum, _mm512_shuffle_epi32(sum, _MM_PERM_BADC));
      sum = _mm512_add_epi32(sum, _mm512_shuffle_epi32(sum, _MM_PERM_CDAB));
      sum = _mm512_sub_epi32(_mm512_setzero_si512(), sum);
      const __m512i packed = _mm512_maskz_compress_epi32(0x1111, sum);
      _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i / 16), _mm512_castsi512_si128(packed));
    }
  }

  static void int8_tile(DType dtype, int64_t rows, const std::byte* tile, const Int8Rows& x,
                        const Output& out) {
    switch (dtype) {
      case DType::q4_0:
        return int8_tile_of<DType::q4_0>(rows, tile, x, out);
      case DType::q4_1:
        return int8_tile_of<DType::q4_1>(rows, tile, x, out);
      case DType::q5_0:
        return int8_tile_of<DType::q5_0>(rows, tile, x, out);
      case DType::q5_1:
        return int8_tile_of<DType::q5_1>(rows, tile, x, out);
      case DType::q8_0:
        return int8_tile_of<DType::q8_0>(rows, tile, x, out);
      case DType::q4_k:
        return int8_tile_of<DType::q4_k>(rows, tile, x, out);
      case DType::q5_k:
        return int8_tile_of<DType::q5_k>(rows, tile, x, out);
      case DType::q6_k:
        return int8_tile_of<DType::q6_k>(rows, tile, x, out);
      default:
        CHECK(false);
    }
  }

  static void int8_tile_pair(DType dtype, int64_t rows, const std::byte* const* tiles,
                             const Int8Rows& x, const Output* out) {
    switch (dtype) {
      case DType::q4_0:
        return int8_tile_pair_of<DType::q4_0>(rows, tiles, x, out);
      case DType::q4_1:
        return int8_tile_pair_of<DType::q4_1>(rows, tiles, x, out);
      case DType::q5_0:
        return int8_tile_pair_of<DType::q5_0>(rows, tiles, x, out);
      case DType::q5_1:
        return int8_tile_pair_of<DType::q5_1>(rows, tiles, x, out);
      case DType::q8_0:
        return int8_tile_pair_of<DType::q8_0>(rows, tiles, x, out);
      case DType::q4_k:
        return int8_tile_pair_of<DType::q4_k>(rows, tiles, x, out);
      case DType::q5_k:
        return int8_tile_pair_of<DType::q5_k>(rows, tiles, x, out);
      case DType::q6_k:
        return int8_tile_pair_of<DType::q6_k>(rows, tiles, x, out);
      default:
        CHECK(false);
    }
  }

  template <DType kDType>
  static void float_blocks(const std::byte* tile, int64_t k_begin, int64_t n, float* out) {
    for (int64_t k = 0; k < n; k += kBlock) {
      float_block<kDType>(tile, (k_begin + k) / kBlock, out + k * kTileRows);
    }
  }

  static void f16_panel(const std::byte* src, int64_t n, float* out) {
    for (int64_t k = 0; k < n; ++k) {
      prefetch(src + 32 * k);
      _mm512_storeu_ps(out + 16 * k, halves_at(src + 32 * k));
    }
  }

  static void bf16_panel(const std::byte* src, int64_t n, float* out) {
    for (int64_t k = 0; k < n; ++k) {
      prefetch(src + 32 * k);
      const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(src + 32 * k));
      _mm512_storeu_si512(out + 16 * k, _mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
    }
  }

  static const float* float_panel(const PackedView& w, int64_t tile, int64_t k_begin, int64_t n,
                                  float* scratch) {
    return panel_by_dtype<Avx512Kernel>(w, tile, k_begin, n, scratch);
  }

  static void float_tile(int64_t rows, const float* panel, int64_t n, const FloatRows& x,
                         const Output& out) {
    switch (rows) {
      case 1:
        return float_rows<1>(panel, n, x, out);
      case 2:
        return float_rows<2>(panel, n, x, out);
      case 3:
        return float_rows<3>(panel, n, x, out);
      case 4:
        return float_rows<4>(panel, n, x, out);
      case 5:
        return float_rows<5>(panel, n, x, out);
      case 6:
        return float_rows<6>(panel, n, x, out);
      case 7:
        return float_rows<7>(panel, n, x, out);
      default:
        return float_rows<8>(panel, n, x, out);
    }
  }
};

void quantize(const float* x, int64_t rows, int64_t cols, int8_t* q8, float* scale,
              float* block_sum) {
  const __m512i magnitude = _mm512_set1_epi32(0x7fffffff);
  for (int64_t b = 0; b < rows * cols / kBlock; ++b, x += kBlock, q8 += kBlock) {
    const __m512 x0 = _mm512_loadu_ps(x);
    const __m512 x1 = _mm512_loadu_ps(x + 16);
    // As integers, magnitudes sort as floats do, and a NaN sorts above all.
    const __m512i m0 = _mm512_and_si512(_mm512_castps_si512(x0), magnitude);
    const __m512i m1 = _mm512_and_si512(_mm512_castps_si512(x1), magnitude);
    const int32_t max_bits = _mm512_reduce_max_epi32(_mm512_max_epi32(m0, m1));
    float amax;
    std::memcpy(&amax, &max_bits, 4);
    const bool finite = max_bits < 0x7f800000;
    const bool live = finite && amax >= kSmallestQuantizedMax;
    scale[b] = live ? amax / 127 : (finite ? 0 : amax);
    // Of a block with a NaN even x * 0 is none of our integers: the mask makes it zero.
    const __mmask16 keep = live ? 0xffff : 0;
    const __m512 inverse = _mm512_set1_ps(live ? 127 / amax : 0);
    const __m512i q0 = _mm512_maskz_cvtps_epi32(keep, _mm512_mul_ps(x0, inverse));
    const __m512i q1 = _mm512_maskz_cvtps_epi32(keep, _mm512_mul_ps(x1, inverse));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(q8), _mm512_cvtepi32_epi8(q0));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(q8 + 16), _mm512_cvtepi32_epi8(q1));
    const int32_t sum = _mm512_reduce_add_epi32(_mm512_add_epi32(q0, q1));
    block_sum[b] = scale[b] * static_cast<float>(sum);
  }
}

void matmul(const PackedView& w, const Activations& x, int64_t tile_begin, int64_t tile_end,
            float* y, int64_t y_stride, bool accumulate) {
  matmul_tiles<Avx512Kernel>(w, x, tile_begin, tile_end, y, y_stride, accumulate);
}

}  // namespace

const MatmulKernels kMatmulAvx512Vnni = {quantize, matmul};

}  // namespace ridge::cpu

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif
