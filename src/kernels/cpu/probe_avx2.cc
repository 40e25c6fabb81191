// The probe's loops in AVX2 with FMA.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/probe_tables.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define RIDGE_TARGET [[gnu::target("avx2,fma")]]

namespace ridge {
namespace {

// Latency 4 to 5 at two a cycle needs ten chains; of sixteen registers twelve hold sums.
constexpr int kChains = 12;
constexpr int kLoads = 16;
constexpr int64_t kWidth = 32;

RIDGE_TARGET inline __m256i load(const std::byte* place) {
  return _mm256_load_si256(reinterpret_cast<const __m256i*>(place));
}

RIDGE_TARGET void read(const std::byte* data, int64_t bytes, int64_t ahead) {
  __m256i sum[8] = {};
  const std::byte* const end = data + bytes;
  if (ahead == 0) {
    for (; data < end; data += kLoads * kWidth) {
#pragma GCC unroll 16
      for (int i = 0; i < kLoads; ++i)
        sum[i % 8] = _mm256_add_epi32(sum[i % 8], load(data + i * kWidth));
    }
  } else {
    for (; data < end; data += kLoads * kWidth) {
#pragma GCC unroll 16
      for (int i = 0; i < kLoads; ++i) {
        if (i % 2 == 0) __builtin_prefetch(data + ahead + i * kWidth);
        sum[i % 8] = _mm256_add_epi32(sum[i % 8], load(data + i * kWidth));
      }
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) asm volatile("" ::"x"(sum[i]));
}

RIDGE_TARGET void read_streams(const std::byte* data, int64_t bytes) {
  __m256i sum[8] = {};
  const int64_t stream = bytes / 4;
  for (int64_t at = 0; at < stream; at += 4 * kWidth) {
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i)
      sum[i % 8] =
          _mm256_add_epi32(sum[i % 8], load(data + (i / 4) * stream + at + (i % 4) * kWidth));
  }
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) asm volatile("" ::"x"(sum[i]));
}

RIDGE_TARGET void copy(const std::byte* from, std::byte* to, int64_t bytes, bool streaming) {
  if (streaming) {
    for (int64_t at = 0; at < bytes; at += 8 * kWidth) {
#pragma GCC unroll 8
      for (int i = 0; i < 8; ++i)
        _mm256_stream_si256(reinterpret_cast<__m256i*>(to + at + i * kWidth),
                            load(from + at + i * kWidth));
    }
    _mm_sfence();
  } else {
    for (int64_t at = 0; at < bytes; at += 8 * kWidth) {
#pragma GCC unroll 8
      for (int i = 0; i < 8; ++i)
        _mm256_store_si256(reinterpret_cast<__m256i*>(to + at + i * kWidth),
                           load(from + at + i * kWidth));
    }
  }
}

RIDGE_TARGET void fp32(int64_t rounds) {
  __m256 sum[kChains] = {};
#pragma GCC unroll 12
  for (int i = 0; i < kChains; ++i) asm volatile("" : "+x"(sum[i]));  // else all sums would be one
  const __m256 x = _mm256_set1_ps(0.5f), y = _mm256_set1_ps(1.0f);
  for (int64_t r = 0; r < rounds; ++r) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) sum[i] = _mm256_fmadd_ps(sum[i], x, y);
  }
#pragma GCC unroll 12
  for (int i = 0; i < kChains; ++i) asm volatile("" ::"x"(sum[i]));
}

// Products are summed in 16 bits; widening to 32 is left out, since a kernel does it once for many.
RIDGE_TARGET void int8(int64_t rounds) {
  __m256i sum[kChains] = {};
#pragma GCC unroll 12
  for (int i = 0; i < kChains; ++i) asm volatile("" : "+x"(sum[i]));  // else all sums would be one
  __m256i x = _mm256_set1_epi8(3);
  const __m256i y = _mm256_set1_epi8(-5);
  for (int64_t r = 0; r < rounds; ++r) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) {
      asm volatile("" : "+x"(x));  // else one product would serve all
      sum[i] = _mm256_add_epi16(sum[i], _mm256_maddubs_epi16(x, y));
    }
  }
#pragma GCC unroll 12
  for (int i = 0; i < kChains; ++i) asm volatile("" ::"x"(sum[i]));
}

}  // namespace

const ProbeKernels kProbeAvx2 = {read, read_streams,    copy, fp32, kChains * 8 * 2,
                                 int8, kChains * 32 * 2};

}  // namespace ridge
#endif
