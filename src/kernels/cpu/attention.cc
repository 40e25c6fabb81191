// The attention kernels, written once and compiled for each Highway target that an Isa stands for.
// Work is done split by split for a block of row-heads (rows x heads of one group). Whatever the
// block, each row-head sees the same operations in the same order: scores by ascending dimension,
// its sum by token modulo lanes, its output by ascending token, splits merged in order.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention.h"

// Three targets: the baseline (plain), AVX2, AVX3. SSE4 would only add what plain must not need.
#define HWY_DISABLED_TARGETS HWY_SSE4
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/attention.cc"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// After highway.h:
#include <hwy/contrib/math/math-inl.h>

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "kernels/cpu/vector_ops-inl.h"
#include "tensor/codec.h"

#ifndef RIDGE_KERNELS_CPU_ATTENTION_ONCE
#define RIDGE_KERNELS_CPU_ATTENTION_ONCE
namespace ridge {

inline constexpr int64_t kTileRowHeads = 6;  // accumulate together; 6 * 4 of AVX-512's 32 registers
inline constexpr int64_t kBlockRowHeads = 96;  // share one conversion of the cache to f32
inline constexpr int64_t kWidestLanes = 16;
inline constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

// Keys [begin, end).
struct TokenRange {
  int64_t begin, end;
  bool empty() const { return begin >= end; }
};

inline TokenRange common_part(TokenRange a, TokenRange b) {
  return {std::max(a.begin, b.begin), std::min(a.end, b.end)};
}

}  // namespace ridge
#endif

HWY_BEFORE_NAMESPACE();
namespace ridge::HWY_NAMESPACE {
namespace {

using FloatVec = hn::Vec<FloatTag>;

// The largest f16; beyond it a value is kept as this, since an infinity would make all later
// outputs NaN.
constexpr float kMaxF16 = 65504.0f;

HWY_INLINE FloatVec load_floats(const float* p) { return hn::LoadU(FloatTag(), p); }
HWY_INLINE FloatVec load_floats(const hwy::float16_t* p) {
  const hn::Rebind<hwy::float16_t, FloatTag> half;
  return hn::PromoteTo(FloatTag(), hn::LoadU(half, p));
}

// Vectors of tokens or of dimensions that one tile of R row-heads keeps in registers.
template <int R>
constexpr int tile_vectors() {
#if HWY_TARGET == HWY_AVX3
  return 4;
#else
  return R <= 3 ? 4 : 2;
#endif
}

// How far ahead of its use the cache is fetched: blocks lie apart, and the hardware's prefetcher
// starts anew at each. Decode gains 1.1 to 1.6 times over none, 8 KiB gains no more (SmolLM2 and
// Gemma 3 shapes, bench/kernel_attention, a busy 2-core Xeon with AVX-512, 2026-11-30).
constexpr int64_t kPrefetchBytes = 2048;
constexpr int64_t kLineBytes = 64;

// sums[r][v] += factors[r * stride] * data[vector v]. Always one fused step per lane.
template <int R, int kVectors, class T>
HWY_INLINE void multiply_in(const float* factors, int64_t stride, const T* data,
                            FloatVec (&sums)[R][kVectors]) {
  const FloatTag d;
  const int64_t lanes = float_lanes();
  if constexpr (sizeof(T) == 2) {  // f32 comes from scratch, or from a cache that asks for no speed
    for (int64_t i = 0; i < kVectors * lanes; i += kLineBytes / 2) {
      hwy::Prefetch(data + kPrefetchBytes / 2 + i);
    }
  }
  // What is held in registers while the other is walked: the fewer of the two.
  if constexpr (R < kVectors) {
    FloatVec held[R];
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) held[r] = hn::Set(d, factors[r * stride]);
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      const FloatVec x = load_floats(data + v * lanes);
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) sums[r][v] = hn::MulAdd(held[r], x, sums[r][v]);
    }
  } else {
    FloatVec held[kVectors];
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) held[v] = load_floats(data + v * lanes);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const FloatVec factor = hn::Set(d, factors[r * stride]);
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) sums[r][v] = hn::MulAdd(factor, held[v], sums[r][v]);
    }
  }
}

// scores[r * kAttentionSplitTokens + t] = q_r . K[., t] for kVectors vectors of tokens.
// q: (head_dim, R). k: (head_dim, kKvPageTokens)
template <int R, int kVectors, class T>
HWY_INLINE void score_columns(const float* q, const T* k, int64_t head_dim, float* scores) {
  const FloatTag d;
  const int64_t lanes = float_lanes();
  FloatVec sums[R][kVectors];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) sums[r][v] = hn::Zero(d);
  }
  for (int64_t i = 0; i < head_dim; ++i) {
    multiply_in<R, kVectors>(q + i * R, 1, k + i * kKvPageTokens, sums);
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      hn::StoreU(sums[r][v], d, scores + r * kAttentionSplitTokens + v * lanes);
    }
  }
}

// `tokens` (of the page) are those that anyone needs; whole vectors around them are computed.
template <int R, class T>
void score_tile(const float* q, const T* k, int64_t head_dim, TokenRange tokens, float* scores) {
  constexpr int kVectors = tile_vectors<R>();
  const int64_t step = kVectors * float_lanes();
  for (int64_t t = tokens.begin / step * step; t < tokens.end; t += step) {
    score_columns<R, kVectors>(q, k + t, head_dim, scores + t);
  }
}

// out[r * width + j] += sum over tokens of p[r * kAttentionSplitTokens + t] * V[t, j], for kVectors
// vectors of j.
template <int R, int kVectors, class T>
HWY_INLINE void value_columns(const float* p, const T* v, int64_t v_stride, TokenRange tokens,
                              float* out, int64_t width) {
  const FloatTag d;
  const int64_t lanes = float_lanes();
  FloatVec sums[R][kVectors];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
    for (int j = 0; j < kVectors; ++j) sums[r][j] = hn::LoadU(d, out + r * width + j * lanes);
  }
  for (int64_t t = tokens.begin; t < tokens.end; ++t) {
    multiply_in<R, kVectors>(p + t, kAttentionSplitTokens, v + t * v_stride, sums);
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
    for (int j = 0; j < kVectors; ++j) hn::StoreU(sums[r][j], d, out + r * width + j * lanes);
  }
}

template <int R, class T>
void value_tile(const float* p, const T* v, int64_t v_stride, TokenRange tokens, float* out,
                int64_t width) {
  constexpr int kVectors = tile_vectors<R>();
  const int64_t lanes = float_lanes();
  int64_t j = 0;
  for (; j + kVectors * lanes <= width; j += kVectors * lanes) {
    value_columns<R, kVectors>(p, v + j, v_stride, tokens, out + j, width);
  }
  for (; j < width; j += lanes) {
    value_columns<R, 1>(p, v + j, v_stride, tokens, out + j, width);
  }
}

// Calls body(std::integral_constant<int, n>) for n in 1..kTileRowHeads.
template <class Body>
HWY_INLINE void with_tile_size(int64_t n, const Body& body) {
  switch (n) {
    case 1:
      return body(std::integral_constant<int, 1>());
    case 2:
      return body(std::integral_constant<int, 2>());
    case 3:
      return body(std::integral_constant<int, 3>());
    case 4:
      return body(std::integral_constant<int, 4>());
    case 5:
      return body(std::integral_constant<int, 5>());
    default:
      DCHECK(n == kTileRowHeads);
      return body(std::integral_constant<int, kTileRowHeads>());
  }
}

// Turns scores[t] into exp(score - max) for t in `own`, into 0 for the others of `all`; token t
// always adds to the sum's lane t % lanes, so `all` does not matter to the sum.
struct MaxAndSum {
  float max = kMinusInfinity;
  float sum = 0;
};
MaxAndSum exponentiate(float* scores, TokenRange own, TokenRange all) {
  const FloatTag d;
  const int64_t lanes = float_lanes();
  const auto kept = [&](int64_t t) HWY_ATTR {
    const FloatVec index = hn::Iota(d, static_cast<float>(t));
    return hn::And(hn::Ge(index, hn::Set(d, static_cast<float>(own.begin))),
                   hn::Lt(index, hn::Set(d, static_cast<float>(own.end))));
  };
  const FloatVec lowest = hn::Set(d, kMinusInfinity);
  FloatVec max = lowest;
  const int64_t begin = all.begin / lanes * lanes;
  for (int64_t t = begin; t < all.end; t += lanes) {
    max = hn::Max(max, hn::IfThenElse(kept(t), hn::LoadU(d, scores + t), lowest));
  }
  max = hn::MaxOfLanes(d, max);
  FloatVec sum = hn::Zero(d);
  for (int64_t t = begin; t < all.end; t += lanes) {
    const FloatVec e = hn::Exp(d, hn::Sub(hn::LoadU(d, scores + t), max));
    const FloatVec p = hn::IfThenElseZero(kept(t), e);
    sum = hn::Add(sum, p);
    hn::StoreU(p, d, scores + t);
  }
  return {hn::GetLane(max), hn::GetLane(hn::SumOfLanes(d, sum))};
}

float exp_of(float x) { return hn::GetLane(hn::Exp(FloatTag(), hn::Set(FloatTag(), x))); }

// Adds a partial result to (total, out). The one place where splits meet: attend() and merge() give
// the same bits because both come here.
HWY_NOINLINE void merge_split(MaxAndSum part, const float* part_out, int64_t head_dim,
                              MaxAndSum& total, float* out) {
  if (part.max == kMinusInfinity) return;
  if (total.max == kMinusInfinity) {
    total = part;
    std::copy_n(part_out, head_dim, out);
    return;
  }
  const float max = std::max(total.max, part.max);
  const float old_factor = total.max == max ? 1.0f : exp_of(total.max - max);
  const float part_factor = part.max == max ? 1.0f : exp_of(part.max - max);
  for_each_vector(head_dim, [&](auto d, int64_t i) HWY_ATTR {
    const auto old = hn::Mul(hn::LoadU(d, out + i), hn::Set(d, old_factor));
    hn::StoreU(hn::MulAdd(hn::LoadU(d, part_out + i), hn::Set(d, part_factor), old), d, out + i);
  });
  total = {max,
           hn::GetLane(hn::MulAdd(hn::Set(LaneTag(), part.sum), hn::Set(LaneTag(), part_factor),
                                  hn::Set(LaneTag(), total.sum * old_factor)))};
}

// Divides by the sum; zeros where nothing was seen.
HWY_NOINLINE void finish(MaxAndSum total, int64_t head_dim, float* out) {
  if (total.max == kMinusInfinity) {
    std::fill_n(out, head_dim, 0.0f);
    return;
  }
  const float factor = 1.0f / total.sum;
  // + 0: a masked key of the same block may have turned -0 into 0.
  for_each_vector(head_dim, [&](auto d, int64_t i) HWY_ATTR {
    hn::StoreU(hn::MulAdd(hn::LoadU(d, out + i), hn::Set(d, factor), hn::Zero(d)), d, out + i);
  });
}

int64_t round_up(int64_t n, int64_t multiple) { return (n + multiple - 1) / multiple * multiple; }

int64_t block_capacity(int64_t group) { return std::max(kBlockRowHeads, group); }

// Scratch for one block, all in floats.
struct Scratch {
  float* q;       // per tile (head_dim, R)
  float* scores;  // (row-heads, kAttentionSplitTokens)
  float* out;     // (row-heads, width)
  float* page;    // K (head_dim, kKvPageTokens) or V (kKvPageTokens, width) as f32
  MaxAndSum* parts;
  MaxAndSum* totals;
};

int64_t scratch_floats(int64_t group, int64_t head_dim) {
  const int64_t capacity = block_capacity(group);
  const int64_t width = round_up(head_dim, kWidestLanes);
  return capacity * (head_dim + kAttentionSplitTokens + width + 4) + kKvPageTokens * width;
}

Scratch carve(float* memory, int64_t group, int64_t head_dim) {
  const int64_t capacity = block_capacity(group);
  const int64_t width = round_up(head_dim, kWidestLanes);
  static_assert(sizeof(MaxAndSum) == 2 * sizeof(float));
  Scratch s;
  s.scores = memory;
  s.out = s.scores + capacity * kAttentionSplitTokens;
  s.page = s.out + capacity * width;
  s.q = s.page + kKvPageTokens * width;
  s.parts = reinterpret_cast<MaxAndSum*>(s.q + capacity * head_dim);
  s.totals = s.parts + capacity;
  return s;
}

void copy_as_floats(const hwy::float16_t* src, int64_t n, float* dst) {
  for_each_vector(n, [&](auto d, int64_t i) HWY_ATTR {
    const hn::Rebind<hwy::float16_t, decltype(d)> half;
    hn::StoreU(hn::PromoteTo(d, hn::LoadU(half, src + i)), d, dst + i);
  });
}
void copy_as_floats(const float* src, int64_t n, float* dst) { std::copy_n(src, n, dst); }

// Some rows of one KV head's group against the cache, one split after another.
template <class T>
class Block {
 public:
  Block(const AttentionShape& shape, const KvLayerView& kv, const AttentionRows& rows,
        int64_t kv_head, int64_t first_row, int64_t n_rows, const Scratch& scratch)
      : kv_(kv),
        rows_(rows),
        kv_head_(kv_head),
        group_(shape.n_heads / kv.n_kv_heads),
        window_(shape.window),
        first_row_(first_row),
        count_(n_rows * group_),
        tiles_((count_ + kTileRowHeads - 1) / kTileRowHeads),
        width_(round_up(kv.head_dim, float_lanes())),
        converts_(width_ != kv.head_dim || (sizeof(T) != sizeof(float) && tiles_ > 1)),
        scratch_(scratch) {
    for (int64_t tile = 0; tile < tiles_; ++tile) pack_queries(tile, shape.scale);
  }

  int64_t count() const { return count_; }

  // Keys that any of the rows sees.
  TokenRange keys() const { return keys_of(0, count_); }

  const float* split_out(int64_t row_head) const { return scratch_.out + row_head * width_; }

  // Fills parts and out of the scratch with the partial results of split `split`.
  void run_split(int64_t split) const {
    const TokenRange all = common_part(keys(), split_range(split));
    for (int64_t page = all.begin / kKvPageTokens; page * kKvPageTokens < all.end; ++page) {
      score_page(page, split);
    }
    for (int64_t tile = 0; tile < tiles_; ++tile) exponentiate_tile(tile, split);
    std::fill_n(scratch_.out, count_ * width_, 0.0f);
    for (int64_t page = all.begin / kKvPageTokens; page * kKvPageTokens < all.end; ++page) {
      weigh_page(page, split);
    }
  }

  float* row_out(int64_t row_head) const {
    return rows_.out + (first_row_ + row_head / group_) * rows_.stride + head_offset(row_head);
  }

 private:
  static TokenRange split_range(int64_t split) {
    return {split * kAttentionSplitTokens, (split + 1) * kAttentionSplitTokens};
  }

  int64_t head_offset(int64_t row_head) const {
    return (kv_head_ * group_ + row_head % group_) * kv_.head_dim;
  }

  // Tiles are cut as evenly as they go, so that none is left with one row-head.
  int64_t tile_begin(int64_t tile) const { return count_ * tile / tiles_; }
  int64_t tile_size(int64_t tile) const { return tile_begin(tile + 1) - tile_begin(tile); }

  // Union over row-heads [begin, end).
  TokenRange keys_of(int64_t begin, int64_t end) const {
    const int64_t first = rows_.first_position + first_row_ + begin / group_;
    const int64_t last = rows_.first_position + first_row_ + (end - 1) / group_;
    return {window_ > 0 ? std::max<int64_t>(0, first - window_ + 1) : 0, last + 1};
  }
  TokenRange tile_keys(int64_t tile) const {
    return keys_of(tile_begin(tile), tile_begin(tile + 1));
  }

  void pack_queries(int64_t tile, float scale) const {
    const int64_t begin = tile_begin(tile), n = tile_size(tile), head_dim = kv_.head_dim;
    float* packed = scratch_.q + begin * head_dim;
    for (int64_t r = 0; r < n; ++r) {
      const float* q =
          rows_.q + (first_row_ + (begin + r) / group_) * rows_.stride + head_offset(begin + r);
      for (int64_t i = 0; i < head_dim; ++i) packed[i * n + r] = q[i] * scale;
    }
  }

  const T* page_keys(int64_t page) const {
    return reinterpret_cast<const T*>(kv_.block(rows_.pages[page], kv_head_));
  }

  // Calls body(tile, the page's tokens that the tile needs, counted from the page's start).
  template <class Body>
  HWY_INLINE void for_tiles_of(int64_t page, const Body& body) const {
    const int64_t start = page * kKvPageTokens;
    for (int64_t tile = 0; tile < tiles_; ++tile) {
      const TokenRange seen = common_part(tile_keys(tile), {start, start + kKvPageTokens});
      if (!seen.empty()) body(tile, TokenRange{seen.begin - start, seen.end - start});
    }
  }

  void score_page(int64_t page, int64_t split) const {
    const T* k = page_keys(page);
    const int64_t head_dim = kv_.head_dim;
    const int64_t offset = page * kKvPageTokens - split * kAttentionSplitTokens;
    if (converts_) copy_as_floats(k, head_dim * kKvPageTokens, scratch_.page);
    for_tiles_of(page, [&](int64_t tile, TokenRange tokens) HWY_ATTR {
      const float* q = scratch_.q + tile_begin(tile) * head_dim;
      float* scores = scratch_.scores + tile_begin(tile) * kAttentionSplitTokens + offset;
      with_tile_size(tile_size(tile), [&](auto size) HWY_ATTR {
        if (converts_) {
          score_tile<size.value>(q, scratch_.page, head_dim, tokens, scores);
        } else {
          score_tile<size.value>(q, k, head_dim, tokens, scores);
        }
      });
    });
  }

  void exponentiate_tile(int64_t tile, int64_t split) const {
    const TokenRange range = split_range(split);
    const auto in_split = [&](TokenRange tokens) {
      const TokenRange part = common_part(tokens, range);
      return TokenRange{part.begin - range.begin, part.end - range.begin};
    };
    const TokenRange all = in_split(tile_keys(tile));
    for (int64_t i = tile_begin(tile); i < tile_begin(tile + 1); ++i) {
      scratch_.parts[i] = MaxAndSum();
      if (all.empty()) continue;
      float* scores = scratch_.scores + i * kAttentionSplitTokens;
      const TokenRange own = in_split(keys_of(i, i + 1));
      if (own.empty()) {
        std::fill(scores + all.begin, scores + all.end, 0.0f);
      } else {
        scratch_.parts[i] = exponentiate(scores, own, all);
      }
    }
  }

  void weigh_page(int64_t page, int64_t split) const {
    const T* v = page_keys(page) + kv_.head_dim * kKvPageTokens;
    const int64_t offset = page * kKvPageTokens - split * kAttentionSplitTokens;
    if (converts_) convert_values(v);
    for_tiles_of(page, [&](int64_t tile, TokenRange tokens) HWY_ATTR {
      const float* p = scratch_.scores + tile_begin(tile) * kAttentionSplitTokens + offset;
      float* out = scratch_.out + tile_begin(tile) * width_;
      with_tile_size(tile_size(tile), [&](auto size) HWY_ATTR {
        if (converts_) {
          value_tile<size.value>(p, scratch_.page, width_, tokens, out, width_);
        } else {
          value_tile<size.value>(p, v, kv_.head_dim, tokens, out, width_);
        }
      });
    });
  }

  void convert_values(const T* v) const {
    const int64_t head_dim = kv_.head_dim;
    if (width_ == head_dim) {
      copy_as_floats(v, kKvPageTokens * head_dim, scratch_.page);
      return;
    }
    for (int64_t t = 0; t < kKvPageTokens; ++t) {
      float* row = scratch_.page + t * width_;
      copy_as_floats(v + t * head_dim, head_dim, row);
      std::fill(row + head_dim, row + width_, 0.0f);
    }
  }

  KvLayerView kv_;
  AttentionRows rows_;
  int64_t kv_head_, group_, window_, first_row_;
  int64_t count_;  // row-heads: row-major, the group's heads inside
  int64_t tiles_;
  int64_t width_;  // head_dim, rounded up to whole vectors
  bool converts_;  // to f32 in scratch before use
  Scratch scratch_;
};

template <class T>
void attend_as(const AttentionShape& shape, const KvLayerView& kv, const AttentionRows& rows,
               int64_t kv_head, float* memory) {
  const int64_t group = shape.n_heads / kv.n_kv_heads;
  const int64_t rows_per_block = std::max<int64_t>(1, kBlockRowHeads / group);
  const Scratch scratch = carve(memory, group, kv.head_dim);
  for (int64_t row = 0; row < rows.rows; row += rows_per_block) {
    const int64_t n = std::min(rows_per_block, rows.rows - row);
    const Block<T> block(shape, kv, rows, kv_head, row, n, scratch);
    std::fill_n(scratch.totals, block.count(), MaxAndSum());
    const TokenRange keys = block.keys();
    for (int64_t split = keys.begin / kAttentionSplitTokens;
         split * kAttentionSplitTokens < keys.end; ++split) {
      block.run_split(split);
      for (int64_t i = 0; i < block.count(); ++i) {
        merge_split(scratch.parts[i], block.split_out(i), kv.head_dim, scratch.totals[i],
                    block.row_out(i));
      }
    }
    for (int64_t i = 0; i < block.count(); ++i) {
      finish(scratch.totals[i], kv.head_dim, block.row_out(i));
    }
  }
}

template <class T>
void attend_split_as(const AttentionShape& shape, const KvLayerView& kv, const AttentionRows& rows,
                     int64_t kv_head, int64_t split, float* partials, float* memory) {
  const int64_t group = shape.n_heads / kv.n_kv_heads;
  const Scratch scratch = carve(memory, group, kv.head_dim);
  const Block<T> block(shape, kv, rows, kv_head, 0, 1, scratch);
  block.run_split(split);
  for (int64_t i = 0; i < group; ++i) {
    float* partial = partials + i * partial_floats(kv.head_dim);
    partial[0] = scratch.parts[i].max;
    partial[1] = scratch.parts[i].sum;
    std::copy_n(block.split_out(i), kv.head_dim, partial + 2);
  }
}

void attend(const AttentionShape& shape, const KvLayerView& kv, const AttentionRows& rows,
            int64_t kv_head, float* scratch) {
  if (kv.dtype == DType::f32) {
    attend_as<float>(shape, kv, rows, kv_head, scratch);
  } else {
    CHECK(kv.dtype == DType::f16);
    attend_as<hwy::float16_t>(shape, kv, rows, kv_head, scratch);
  }
}

void attend_split(const AttentionShape& shape, const KvLayerView& kv, const AttentionRows& rows,
                  int64_t kv_head, int64_t split, float* partials, float* scratch) {
  DCHECK(rows.rows == 1);
  if (kv.dtype == DType::f32) {
    attend_split_as<float>(shape, kv, rows, kv_head, split, partials, scratch);
  } else {
    CHECK(kv.dtype == DType::f16);
    attend_split_as<hwy::float16_t>(shape, kv, rows, kv_head, split, partials, scratch);
  }
}

void merge(const float* partials, int64_t n_splits, int64_t stride, int64_t head_dim, float* out) {
  MaxAndSum total;
  for (int64_t s = 0; s < n_splits; ++s) {
    const float* partial = partials + s * stride;
    merge_split({partial[0], partial[1]}, partial + 2, head_dim, total, out);
  }
  finish(total, head_dim, out);
}

void write_halves(const float* src, int64_t n, uint16_t* dst) {
#if HWY_TARGET == HWY_SSSE3  // Highway's own rounding is not to nearest even here
  for (int64_t i = 0; i < n; ++i)
    dst[i] = f32_to_f16(std::min(kMaxF16, std::max(-kMaxF16, src[i])));
#else
  for_each_vector(n, [&](auto d, int64_t i) HWY_ATTR {
    const hn::Rebind<hwy::float16_t, decltype(d)> half;
    const auto x = hn::LoadU(d, src + i);
    const auto bounded = hn::Min(hn::Set(d, kMaxF16), hn::Max(hn::Set(d, -kMaxF16), x));
    hn::StoreU(hn::DemoteTo(half, bounded), half, reinterpret_cast<hwy::float16_t*>(dst + i));
  });
#endif
}

void append(const KvLayerView& kv, int32_t page, int64_t slot, const float* k, const float* v) {
  const int64_t head_dim = kv.head_dim;
  for (int64_t h = 0; h < kv.n_kv_heads; ++h, k += head_dim, v += head_dim) {
    std::byte* block = kv.block(page, h);
    if (kv.dtype == DType::f32) {
      auto* keys = reinterpret_cast<float*>(block);
      for (int64_t i = 0; i < head_dim; ++i) keys[i * kKvPageTokens + slot] = k[i];
      std::copy_n(v, head_dim, keys + (kKvPageTokens + slot) * head_dim);
      continue;
    }
    CHECK(kv.dtype == DType::f16);
    auto* keys = reinterpret_cast<uint16_t*>(block);
    uint16_t part[kKvPageTokens];
    for (int64_t i = 0; i < head_dim; i += kKvPageTokens) {
      const int64_t n = std::min(kKvPageTokens, head_dim - i);
      write_halves(k + i, n, part);
      for (int64_t j = 0; j < n; ++j) keys[(i + j) * kKvPageTokens + slot] = part[j];
    }
    write_halves(v, head_dim, keys + kKvPageTokens * head_dim + slot * head_dim);
  }
}

}  // namespace

const AttentionKernels& attention_table() {
  static constexpr AttentionKernels kTable = {append, scratch_floats, attend, attend_split, merge};
  return kTable;
}

}  // namespace ridge::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ridge {

const AttentionKernels& attention_kernels(Isa isa) {
#if HWY_TARGETS & HWY_AVX3
  if (isa == Isa::avx512_vnni) return N_AVX3::attention_table();
#endif
#if HWY_TARGETS & HWY_AVX2
  if (isa == Isa::avx2) return N_AVX2::attention_table();
#endif
  (void)isa;
  return HWY_STATIC_DISPATCH(attention_table)();
}

}  // namespace ridge
#endif
