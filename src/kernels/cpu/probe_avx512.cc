// The probe's loops in AVX-512 with VNNI.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/probe_tables.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define RIDGE_TARGET [[gnu::target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]]

namespace ridge {
namespace {

// Latency 4 to 5 at two a cycle needs ten chains; sixteen leave half of the registers free.
constexpr int kChains = 16;
constexpr int kLoads = 16;
constexpr int64_t kWidth = 64;

RIDGE_TARGET void read(const std::byte* data, int64_t bytes, int64_t ahead) {
  __m512i sum[8] = {};
  const std::byte* const end = data + bytes;
  if (ahead == 0) {
    for (; data < end; data += kLoads * kWidth) {
#pragma GCC unroll 16
      for (int i = 0; i < kLoads; ++i)
        sum[i % 8] = _mm512_add_epi32(sum[i % 8], _mm512_load_si512(data + i * kWidth));
    }
  } else {
    for (; data < end; data += kLoads * kWidth) {
#pragma GCC unroll 16
      for (int i = 0; i < kLoads; ++i) {
        __builtin_prefetch(data + ahead + i * kWidth);
        sum[i % 8] = _mm512_add_epi32(sum[i % 8], _mm512_load_si512(data + i * kWidth));
      }
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) asm volatile("" ::"v"(sum[i]));
}

RIDGE_TARGET void read_streams(const std::byte* data, int64_t bytes) {
  __m512i sum[8] = {};
  const int64_t stream = bytes / 4;
  for (int64_t at = 0; at < stream; at += 4 * kWidth) {
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) {
      const std::byte* place = data + (i / 4) * stream + at + (i % 4) * kWidth;
      sum[i % 8] = _mm512_add_epi32(sum[i % 8], _mm512_load_si512(place));
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) asm volatile("" ::"v"(sum[i]));
}

RIDGE_TARGET void copy(const std::byte* from, std::byte* to, int64_t bytes, bool streaming) {
  if (streaming) {
    for (int64_t at = 0; at < bytes; at += 8 * kWidth) {
#pragma GCC unroll 8
      for (int i = 0; i < 8; ++i)
        _mm512_stream_si512(reinterpret_cast<__m512i*>(to + at + i * kWidth),
                            _mm512_load_si512(from + at + i * kWidth));
    }
    _mm_sfence();
  } else {
    for (int64_t at = 0; at < bytes; at += 8 * kWidth) {
#pragma GCC unroll 8
      for (int i = 0; i < 8; ++i)
        _mm512_store_si512(to + at + i * kWidth, _mm512_load_si512(from + at + i * kWidth));
    }
  }
}

RIDGE_TARGET void fp32(int64_t rounds) {
  __m512 sum[kChains] = {};
#pragma GCC unroll 16
  for (int i = 0; i < kChains; ++i) asm volatile("" : "+v"(sum[i]));  // else all sums would be one
  const __m512 x = _mm512_set1_ps(0.5f), y = _mm512_set1_ps(1.0f);
  for (int64_t r = 0; r < rounds; ++r) {
#pragma GCC unroll 16
    for (int i = 0; i < kChains; ++i) sum[i] = _mm512_fmadd_ps(sum[i], x, y);
  }
#pragma GCC unroll 16
  for (int i = 0; i < kChains; ++i) asm volatile("" ::"v"(sum[i]));
}

RIDGE_TARGET void int8(int64_t rounds) {
  __m512i sum[kChains] = {};
#pragma GCC unroll 16
  for (int i = 0; i < kChains; ++i) asm volatile("" : "+v"(sum[i]));  // else all sums would be one
  const __m512i x = _mm512_set1_epi8(3), y = _mm512_set1_epi8(-5);
  for (int64_t r = 0; r < rounds; ++r) {
#pragma GCC unroll 16
    for (int i = 0; i < kChains; ++i) sum[i] = _mm512_dpbusd_epi32(sum[i], x, y);
  }
#pragma GCC unroll 16
  for (int i = 0; i < kChains; ++i) asm volatile("" ::"v"(sum[i]));
}

}  // namespace

const ProbeKernels kProbeAvx512Vnni = {read, read_streams,    copy, fp32, kChains * 16 * 2,
                                       int8, kChains * 64 * 2};

}  // namespace ridge
#endif
