// The AVX2 family. Two vectors hold 4 columns of rows 0-7 and 8-15 of a tile as bytes; vpmaddubsw
// multiplies them with 4 broadcast activations and sums pairs in int16. Those are added up as long
// as they stay below 2^15 with |x| <= 127: eight groups of 4-bit weights (15 x 127 x 2 x 8), four
// of 5 bits (31 x 127 x 2 x 4), two of 6 bits (63 x 127 x 2 x 2), one of 8 bits (128 x 127 x 2).
// The invariant: an output's float additions are the same instructions in the same order whatever
// the number of rows; only integer sums, which are exact, are cut differently.
// SPDX-License-Identifier: Apache-2.0
#if defined(__x86_64__)
#include <immintrin.h>

#include <cstring>

#include "kernels/cpu/matmul_isa.h"

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c")
#endif

namespace ridge::cpu {
namespace {

// How far ahead of use weights are asked for, into the L2 cache. On a Xeon with 2 MB of L2 8 KB
// reached 97 % of the plain read rate, 2 KB into L1 some 85 %, and 12 KB no more (2026-11).
constexpr int64_t kPrefetchBytes = 8192;

inline void prefetch(const std::byte* p) {
  _mm_prefetch(reinterpret_cast<const char*>(p + kPrefetchBytes), _MM_HINT_T1);
}

inline __m256 halves_at(const std::byte* p) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
inline __m256 unsigned_bytes_at(const std::byte* p) {
  return _mm256_cvtepi32_ps(
      _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
}
inline __m256 signed_bytes_at(const std::byte* p) {
  return _mm256_cvtepi32_ps(
      _mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
}

// Scales of one block for 8 rows: value = d[h] * q + m; q is unsigned unless it has 8 bits. With
// halves and with 8 bits m is not set: the offset is taken off as an integer, or there is none.
struct Scales {
  __m256 d[2];
  __m256 m;
};

// `side` 0: rows 0-7, 1: rows 8-15.
template <DType kDType>
inline Scales load_scales(const std::byte* super, const std::byte* scales, int side) {
  constexpr PackFormat kF = pack_format(kDType);
  Scales s;
  s.m = _mm256_setzero_ps();
  if constexpr (!kF.is_super) {
    s.d[0] = s.d[1] = halves_at(scales + 16 * side);
    if constexpr (kF.has_min) {
      s.m = halves_at(scales + 32 + 16 * side);
    } else if constexpr (kF.offset != 0) {
      s.m = _mm256_mul_ps(s.d[0], _mm256_set1_ps(-kF.offset));
    }
  } else if constexpr (kF.has_halves) {
    const __m256 d = halves_at(super + 16 * side);
    s.d[0] = _mm256_mul_ps(d, signed_bytes_at(scales + 8 * side));
    s.d[1] = _mm256_mul_ps(d, signed_bytes_at(scales + 16 + 8 * side));
  } else {
    s.d[0] = s.d[1] =
        _mm256_mul_ps(halves_at(super + 16 * side), unsigned_bytes_at(scales + 8 * side));
    const __m256 min =
        _mm256_mul_ps(halves_at(super + 32 + 16 * side), unsigned_bytes_at(scales + 16 + 8 * side));
    s.m = _mm256_xor_ps(min, _mm256_set1_ps(-0.0f));
  }
  return s;
}

inline __m256i load(const std::byte* p) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
}

// w | (bits & mask)
inline __m256i or_masked(__m256i w, __m256i bits, __m256i mask) {
  return _mm256_or_si256(w, _mm256_and_si256(bits, mask));
}

// One side of a block's quants, one vector per group: unsigned, 8 bits signed.
template <DType kDType>
inline void load_quants(const std::byte* p, __m256i w[kGroups]) {
  constexpr int kBits = pack_format(kDType).bits;
  if constexpr (kBits == 8) {
#pragma GCC unroll 8
    for (int g = 0; g < kGroups; ++g) w[g] = load(p + 64 * g);
    return;
  }
  const __m256i nibble = _mm256_set1_epi8(15);
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const __m256i both = load(p + 64 * i);
    w[i] = _mm256_and_si256(both, nibble);
    w[i + 4] = _mm256_and_si256(_mm256_srli_epi16(both, 4), nibble);
  }
  if constexpr (kBits == 5) {
    const __m256i mask = _mm256_set1_epi8(16);
    const __m256i plane = load(p + 256);
    w[0] = or_masked(w[0], _mm256_slli_epi16(plane, 4), mask);
    w[1] = or_masked(w[1], _mm256_slli_epi16(plane, 3), mask);
    w[2] = or_masked(w[2], _mm256_slli_epi16(plane, 2), mask);
    w[3] = or_masked(w[3], _mm256_slli_epi16(plane, 1), mask);
    w[4] = or_masked(w[4], plane, mask);
    w[5] = or_masked(w[5], _mm256_srli_epi16(plane, 1), mask);
    w[6] = or_masked(w[6], _mm256_srli_epi16(plane, 2), mask);
    w[7] = or_masked(w[7], _mm256_srli_epi16(plane, 3), mask);
  }
  if constexpr (kBits == 6) {
    const __m256i mask = _mm256_set1_epi8(48);
#pragma GCC unroll 2
    for (int h = 0; h < 2; ++h) {
      const __m256i plane = load(p + 256 + 64 * h);
      w[4 * h] = or_masked(w[4 * h], _mm256_slli_epi16(plane, 4), mask);
      w[4 * h + 1] = or_masked(w[4 * h + 1], _mm256_slli_epi16(plane, 2), mask);
      w[4 * h + 2] = or_masked(w[4 * h + 2], plane, mask);
      w[4 * h + 3] = or_masked(w[4 * h + 3], _mm256_srli_epi16(plane, 2), mask);
    }
  }
}

inline __m256i broadcast4(const int8_t* p) {
  int32_t word;
  std::memcpy(&word, p, 4);
  return _mm256_set1_epi32(word);
}

inline __m256i widen(__m256i pairs) { return _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)); }

// The int16 pair sums of groups [kBegin, kBegin + kCount), unsigned weights.
template <int kBegin, int kCount>
inline __m256i pair_sums(const __m256i w[kGroups], const int8_t* x) {
  __m256i sum = _mm256_maddubs_epi16(w[kBegin], broadcast4(x + 4 * kBegin));
#pragma GCC unroll 8
  for (int g = kBegin + 1; g < kBegin + kCount; ++g) {
    sum = _mm256_add_epi16(sum, _mm256_maddubs_epi16(w[g], broadcast4(x + 4 * g)));
  }
  return sum;
}

// The dot products of the 8 rows over the block.
template <DType kDType>
inline __m256i dot(const __m256i w[kGroups], const int8_t* x) {
  constexpr int kBits = pack_format(kDType).bits;
  if constexpr (kBits == 4) {
    return widen(_mm256_add_epi16(pair_sums<0, 4>(w, x), pair_sums<4, 4>(w, x)));
  } else if constexpr (kBits == 5) {
    return _mm256_add_epi32(widen(pair_sums<0, 4>(w, x)), widen(pair_sums<4, 4>(w, x)));
  } else {
    static_assert(kBits == 8);
    __m256i sum = _mm256_setzero_si256();
#pragma GCC unroll 8
    for (int g = 0; g < kGroups; ++g) {
      const __m256i signed_x = _mm256_sign_epi8(broadcast4(x + 4 * g), w[g]);
      sum = _mm256_add_epi32(sum, widen(_mm256_maddubs_epi16(_mm256_abs_epi8(w[g]), signed_x)));
    }
    return sum;
  }
}

// The same over one half of a 6-bit block, plus `offset`.
template <int kHalf>
inline __m256i dot6(__m256i offset, const __m256i w[kGroups], const int8_t* x) {
  const __m256i first = widen(pair_sums<4 * kHalf, 2>(w, x));
  const __m256i second = widen(pair_sums<4 * kHalf + 2, 2>(w, x));
  return _mm256_add_epi32(_mm256_add_epi32(first, offset), second);
}

// One block's contribution to 8 outputs of one row.
template <DType kDType>
inline __m256 add_block(__m256 acc, const __m256i w[kGroups], const Scales& s, const Int8Rows& x,
                        int64_t row, int64_t b) {
  constexpr PackFormat kF = pack_format(kDType);
  const int8_t* q8 = x.q8 + row * x.cols + b * kBlock;
  const int64_t at = row * x.blocks + b;
  const __m256 scale = _mm256_set1_ps(x.scale[at]);
  if constexpr (kF.has_halves) {
    const __m256i i0 = dot6<0>(_mm256_set1_epi32(x.half_sums[2 * at]), w, q8);
    const __m256i i1 = dot6<1>(_mm256_set1_epi32(x.half_sums[2 * at + 1]), w, q8);
    acc = _mm256_fmadd_ps(s.d[0], _mm256_mul_ps(_mm256_cvtepi32_ps(i0), scale), acc);
    return _mm256_fmadd_ps(s.d[1], _mm256_mul_ps(_mm256_cvtepi32_ps(i1), scale), acc);
  } else {
    const __m256 f = _mm256_cvtepi32_ps(dot<kDType>(w, q8));
    acc = _mm256_fmadd_ps(s.d[0], _mm256_mul_ps(f, scale), acc);
    if constexpr (kF.bits == 8) return acc;
    return _mm256_fmadd_ps(s.m, _mm256_set1_ps(x.block_sum[at]), acc);
  }
}

inline __m256i mask_of(int n, int side) {
  const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(n - 8 * side), lane);
}

template <int kRows>
inline void load_output(const Output& out, __m256 acc[kRows][2]) {
  for (int r = 0; r < kRows; ++r) {
    for (int side = 0; side < 2; ++side) {
      acc[r][side] =
          out.load ? _mm256_maskload_ps(out.y + r * out.stride + 8 * side, mask_of(out.n, side))
                   : _mm256_setzero_ps();
    }
  }
}

template <int kRows>
inline void store_output(const __m256 acc[kRows][2], const Output& out) {
  for (int r = 0; r < kRows; ++r) {
    for (int side = 0; side < 2; ++side) {
      _mm256_maskstore_ps(out.y + r * out.stride + 8 * side, mask_of(out.n, side), acc[r][side]);
    }
  }
}

template <DType kDType, int kRows>
void int8_rows(const std::byte* tile, const Int8Rows& x, const Output& out) {
  constexpr PackFormat kF = pack_format(kDType);
  __m256 acc[kRows][2];
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
#pragma GCC unroll 2
    for (int side = 0; side < 2; ++side) {
      const Scales s = load_scales<kDType>(super, block, side);
      __m256i w[kGroups];
      load_quants<kDType>(block + scale_bytes(kF) + 32 * side, w);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        acc[r][side] = add_block<kDType>(acc[r][side], w, s, x, r, b);
      }
    }
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

FloatRows skip_rows(FloatRows x, int64_t n) {
  x.x += n * x.cols;
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

// Block b of a tile as floats, (32, 16). The steps are exact: as decode() rounds, so does this.
template <DType kDType>
void float_block(const std::byte* tile, int64_t b, float* out) {
  constexpr PackFormat kF = pack_format(kDType);
  const std::byte* block = tile + block_offset(kF, b);
  const __m256i byte = _mm256_set1_epi32(255);
  for (int side = 0; side < 2; ++side) {
    const Scales s = load_scales<kDType>(tile + super_offset(kF, b), block, side);
    __m256i w[kGroups];
    load_quants<kDType>(block + scale_bytes(kF) + 32 * side, w);
    for (int g = 0; g < kGroups; ++g) {
      const __m256 d = s.d[kF.has_halves ? g / 4 : 0];
      const __m256 m = kF.has_halves ? _mm256_mul_ps(d, _mm256_set1_ps(-32.0f)) : s.m;
      for (int j = 0; j < 4; ++j) {
        const __m256i shift = _mm256_set1_epi32(kF.bits == 8 ? 24 - 8 * j : 8 * j);
        // 8 bits: up to the top of the lane, then back with the sign.
        const __m256i q = kF.bits == 8 ? _mm256_srai_epi32(_mm256_sllv_epi32(w[g], shift), 24)
                                       : _mm256_and_si256(_mm256_srlv_epi32(w[g], shift), byte);
        const __m256 value = _mm256_fmadd_ps(_mm256_cvtepi32_ps(q), d, m);
        _mm256_storeu_ps(out + (4 * g + j) * kTileRows + 8 * side, value);
      }
    }
  }
}

template <int kRows>
inline void add_column(const float* w, const FloatRows& x, int64_t k, __m256 acc[kRows][2]) {
  const __m256 w0 = _mm256_loadu_ps(w + k * kTileRows);
  const __m256 w1 = _mm256_loadu_ps(w + k * kTileRows + 8);
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
    const __m256 value = _mm256_set1_ps(x.x[r * x.cols + k]);
    acc[r][0] = _mm256_fmadd_ps(w0, value, acc[r][0]);
    acc[r][1] = _mm256_fmadd_ps(w1, value, acc[r][1]);
  }
}

// Even and odd k are summed apart, for more additions in flight.
template <int kRows>
void float_rows(const float* panel, int64_t n, const FloatRows& x, const Output& out) {
  __m256 even[kRows][2], odd[kRows][2];
  for (int r = 0; r < kRows; ++r) {
    even[r][0] = even[r][1] = odd[r][0] = odd[r][1] = _mm256_setzero_ps();
  }
  int64_t k = 0;
  for (; k + 2 <= n; k += 2) {
    add_column<kRows>(panel, x, k, even);
    add_column<kRows>(panel, x, k + 1, odd);
  }
  if (k < n) add_column<kRows>(panel, x, k, even);
  __m256 acc[kRows][2];
  load_output<kRows>(out, acc);
  for (int r = 0; r < kRows; ++r) {
    for (int side = 0; side < 2; ++side) {
      acc[r][side] = _mm256_add_ps(acc[r][side], _mm256_add_ps(even[r][side], odd[r][side]));
    }
  }
  store_output<kRows>(acc, out);
}

inline __m128i sum_of_lanes(__m256i v) {
  __m128i sum = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0x4e));
  return _mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0xb1));
}

inline int32_t max_of_lanes(__m256i v) {
  __m128i max = _mm_max_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  max = _mm_max_epi32(max, _mm_shuffle_epi32(max, 0x4e));
  return _mm_cvtsi128_si32(_mm_max_epi32(max, _mm_shuffle_epi32(max, 0xb1)));
}

struct Avx2Kernel {
  static constexpr int64_t kMaxRows = 8;
  static constexpr bool kHasTilePairs = false;

  static void half_sums(const int8_t* q8, int64_t n, int32_t* out) {
    const __m256i offset = _mm256_set1_epi16(-32);
    for (int64_t i = 0; i < n; i += 16) {
      const __m128i x = _mm_loadu_si128(reinterpret_cast<const __m128i*>(q8 + i));
      const __m256i products = _mm256_madd_epi16(_mm256_cvtepi8_epi16(x), offset);
      out[i / 16] = _mm_cvtsi128_si32(sum_of_lanes(products));
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

  template <DType kDType>
  static void float_blocks(const std::byte* tile, int64_t k_begin, int64_t n, float* out) {
    for (int64_t k = 0; k < n; k += kBlock) {
      float_block<kDType>(tile, (k_begin + k) / kBlock, out + k * kTileRows);
    }
  }

  static void f16_panel(const std::byte* src, int64_t n, float* out) {
    for (int64_t i = 0; i < 2 * n; ++i) {
      prefetch(src + 16 * i);
      _mm256_storeu_ps(out + 8 * i, halves_at(src + 16 * i));
    }
  }

  static void bf16_panel(const std::byte* src, int64_t n, float* out) {
    for (int64_t i = 0; i < 2 * n; ++i) {
      prefetch(src + 16 * i);
      const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(src + 16 * i));
      const __m256i wide = _mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16);
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + 8 * i), wide);
    }
  }

  static const float* float_panel(const PackedView& w, int64_t tile, int64_t k_begin, int64_t n,
                                  float* scratch) {
    return panel_by_dtype<Avx2Kernel>(w, tile, k_begin, n, scratch);
  }

  static void float_tile(int64_t rows, const float* panel, int64_t n, const FloatRows& x,
                         const Output& out) {
    int64_t done = 0;
    for (; done + 2 <= rows; done += 2) {
      float_rows<2>(panel, n, skip_rows(x, done), skip_rows(out, done));
    }
    if (done < rows) float_rows<1>(panel, n, skip_rows(x, done), skip_rows(out, done));
  }
};

// 8 values times `inverse`, rounded to nearest even.
inline __m256i round8(const float* x, __m256 inverse) {
  return _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x), inverse));
}

// Quantises one block of finite values; returns the sum of its integers.
int32_t quantize_block(const float* x, float inverse_scale, int8_t* q8) {
  const __m256 inverse = _mm256_set1_ps(inverse_scale);
  const __m256i a = round8(x, inverse), b = round8(x + 8, inverse);
  const __m256i c = round8(x + 16, inverse), d = round8(x + 24, inverse);
  const __m256i sum = _mm256_add_epi32(_mm256_add_epi32(a, b), _mm256_add_epi32(c, d));
  // Packing works within 128-bit lanes: lanes are a0 b0 c0 d0 a1 b1 c1 d1, four bytes each.
  const __m256i bytes = _mm256_packs_epi16(_mm256_packs_epi32(a, b), _mm256_packs_epi32(c, d));
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(q8), _mm256_permutevar8x32_epi32(bytes, order));
  return _mm_cvtsi128_si32(sum_of_lanes(sum));
}

void quantize(const float* x, int64_t rows, int64_t cols, int8_t* q8, float* scale,
              float* block_sum) {
  const __m256i magnitude = _mm256_set1_epi32(0x7fffffff);
  for (int64_t b = 0; b < rows * cols / kBlock; ++b, x += kBlock, q8 += kBlock) {
    // As integers, magnitudes sort as floats do, and a NaN sorts above all.
    __m256i max = _mm256_setzero_si256();
    for (int i = 0; i < kBlock; i += 8) {
      const __m256i bits = _mm256_castps_si256(_mm256_loadu_ps(x + i));
      max = _mm256_max_epi32(max, _mm256_and_si256(bits, magnitude));
    }
    const int32_t max_bits = max_of_lanes(max);
    float amax;
    std::memcpy(&amax, &max_bits, 4);
    const bool finite = max_bits < 0x7f800000;
    const bool live = finite && amax >= kSmallestQuantizedMax;
    scale[b] = live ? amax / 127 : (finite ? 0 : amax);
    int32_t sum = 0;
    if (live) {
      sum = quantize_block(x, 127 / amax, q8);
    } else {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(q8), _mm256_setzero_si256());
    }
    block_sum[b] = scale[b] * static_cast<float>(sum);
  }
}

void matmul(const PackedView& w, const Activations& x, int64_t tile_begin, int64_t tile_end,
            float* y, int64_t y_stride, bool accumulate) {
  matmul_tiles<Avx2Kernel>(w, x, tile_begin, tile_end, y, y_stride, accumulate);
}

}  // namespace

const MatmulKernels kMatmulAvx2 = {quantize, matmul};

}  // namespace ridge::cpu

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif
