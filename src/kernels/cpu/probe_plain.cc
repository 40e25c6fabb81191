// The probe's loops in 16-byte vectors that every CPU has: what the compiler can make of the plain
// kernels at best.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/probe_tables.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace ridge {
namespace {

typedef int32_t Ints __attribute__((vector_size(16)));
typedef int16_t Shorts __attribute__((vector_size(16)));
typedef float Floats __attribute__((vector_size(16)));

#if defined(__x86_64__)
#define RIDGE_VECTOR_REGISTER "x"
#else
#define RIDGE_VECTOR_REGISTER "w"
#endif

// A multiply and an add of latency 4 and 3 at up to 1.5 pairs a cycle need eleven chains.
constexpr int kChains = 14;
constexpr int kLoads = 16;
constexpr int64_t kWidth = 16;

template <class T>
inline void keep(T& value) {
  asm volatile("" : "+" RIDGE_VECTOR_REGISTER(value));
}

inline Ints load(const std::byte* place) { return *reinterpret_cast<const Ints*>(place); }

void read(const std::byte* data, int64_t bytes, int64_t ahead) {
  Ints sum[8] = {};
  const std::byte* const end = data + bytes;
  for (; data < end; data += kLoads * kWidth) {
    if (ahead > 0) {
#pragma GCC unroll 4
      for (int line = 0; line < 4; ++line) __builtin_prefetch(data + ahead + line * 64);
    }
#pragma GCC unroll 16
    for (int i = 0; i < kLoads; ++i) sum[i % 8] += load(data + i * kWidth);
  }
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) keep(sum[i]);
}

void read_streams(const std::byte* data, int64_t bytes) {
  Ints sum[8] = {};
  const int64_t stream = bytes / 4;
  for (int64_t at = 0; at < stream; at += 4 * kWidth) {
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i)
      sum[i % 8] += load(data + (i / 4) * stream + at + (i % 4) * kWidth);
  }
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) keep(sum[i]);
}

void copy(const std::byte* from, std::byte* to, int64_t bytes, bool streaming) {
#if defined(__x86_64__)
  if (streaming) {
    for (int64_t at = 0; at < bytes; at += kWidth)
      _mm_stream_si128(reinterpret_cast<__m128i*>(to + at),
                       *reinterpret_cast<const __m128i*>(from + at));
    _mm_sfence();
    return;
  }
#endif
  static_cast<void>(streaming);
  for (int64_t at = 0; at < bytes; at += kWidth)
    *reinterpret_cast<Ints*>(to + at) = load(from + at);
}

void fp32(int64_t rounds) {
  Floats sum[kChains] = {};
#pragma GCC unroll 14
  for (int i = 0; i < kChains; ++i) keep(sum[i]);  // else all sums would be one
  const Floats x = {0.5f, 0.5f, 0.5f, 0.5f}, y = {1, 1, 1, 1};
  for (int64_t r = 0; r < rounds; ++r) {
#pragma GCC unroll 14
    for (int i = 0; i < kChains; ++i) sum[i] = sum[i] * x + y;
  }
#pragma GCC unroll 14
  for (int i = 0; i < kChains; ++i) keep(sum[i]);
}

#if defined(__x86_64__)
constexpr int64_t kInt8FlopsPerRound = kChains * 16 * 2;

[[gnu::target("ssse3")]] void int8(int64_t rounds) {
  __m128i sum[kChains] = {};
#pragma GCC unroll 14
  for (int i = 0; i < kChains; ++i) keep(sum[i]);  // else all sums would be one
  __m128i x = _mm_set1_epi8(3);
  const __m128i y = _mm_set1_epi8(-5);
  for (int64_t r = 0; r < rounds; ++r) {
#pragma GCC unroll 14
    for (int i = 0; i < kChains; ++i) {
      keep(x);  // else one product would serve all
      sum[i] = _mm_add_epi16(sum[i], _mm_maddubs_epi16(x, y));
    }
  }
#pragma GCC unroll 14
  for (int i = 0; i < kChains; ++i) keep(sum[i]);
}
#else
constexpr int64_t kInt8FlopsPerRound = kChains * 8 * 2;

void int8(int64_t rounds) {
  Shorts sum[kChains] = {};
#pragma GCC unroll 14
  for (int i = 0; i < kChains; ++i) keep(sum[i]);  // else all sums would be one
  Shorts x = {3, 3, 3, 3, 3, 3, 3, 3};
  const Shorts y = {-5, -5, -5, -5, -5, -5, -5, -5};
  for (int64_t r = 0; r < rounds; ++r) {
#pragma GCC unroll 14
    for (int i = 0; i < kChains; ++i) {
      keep(x);
      sum[i] += x * y;
    }
  }
#pragma GCC unroll 14
  for (int i = 0; i < kChains; ++i) keep(sum[i]);
}
#endif

}  // namespace

const ProbeKernels kProbePlain = {read, read_streams,      copy, fp32, kChains * 4 * 2,
                                  int8, kInt8FlopsPerRound};

}  // namespace ridge
