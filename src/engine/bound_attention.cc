// Attention over the paged cache. New keys and values are appended first; then rows of prompts are
// shared out in blocks, single rows by KV split when their context is long.
// SPDX-License-Identifier: Apache-2.0
#include "engine/bound_op.h"

namespace ridge {

namespace {

// Query rows of one unit of prefill work.
constexpr int64_t kRowBlock = 32;

class BoundAttention : public BoundOp {
 public:
  BoundAttention(const Attention& op, Buffer q, Buffer out)
      : op_(op),
        shape_{op.heads, static_cast<float>(op.scale), op.window},
        q_(q),
        out_(out),
        group_(op.heads / op.kv_heads) {}

  void run(const StepContext& c, const Team& team) const override {
    const KvLayerView kv = c.kv->layer(op_.layer);
    append(c, team, kv);
    team.barrier();
    const bool by_split = splits_pay(c);
    int64_t unit = 0, partial = 0;
    int64_t next = claim(c);
    for (const BatchSequence& s : c.batch->sequences()) {
      const int64_t splits = by_split && s.new_rows == 1 ? splits_of(s) : 1;
      const int64_t blocks = (s.new_rows + kRowBlock - 1) / kRowBlock;
      const int64_t units = blocks * op_.kv_heads * splits;
      for (; next < unit + units; next = claim(c))
        attend(c, team, kv, s, next - unit, blocks, splits, partial);
      unit += units;
      if (splits > 1) partial += splits * op_.heads;
    }
    if (by_split) {
      team.barrier();
      merge(c, team);
    }
  }

 private:
  static int64_t claim(const StepContext& c) {
    return c.cursor->fetch_add(1, std::memory_order_relaxed);
  }

  // Splits of the KV range that a decoding row touches, counted from the first it can see.
  int64_t first_split(const BatchSequence& s) const {
    const int64_t first_key =
        shape_.window == 0 ? 0 : std::max<int64_t>(0, s.cached - shape_.window + 1);
    return first_key / kAttentionSplitTokens;
  }
  int64_t splits_of(const BatchSequence& s) const {
    return s.cached / kAttentionSplitTokens - first_split(s) + 1;
  }
  // Whether any single row has more than one split: then those rows are cut by split.
  bool splits_pay(const StepContext& c) const {
    for (const BatchSequence& s : c.batch->sequences())
      if (s.new_rows == 1 && splits_of(s) > 1) return true;
    return false;
  }

  void append(const StepContext& c, const Team& team, const KvLayerView& kv) const {
    const auto share = team.share_of(c.rows());
    for (const BatchSequence& s : c.batch->sequences()) {
      const int64_t begin = std::max(share.begin, s.row_begin);
      const int64_t end = std::min(share.end, s.row_begin + s.new_rows);
      for (int64_t r = begin; r < end; ++r) {
        const int64_t position = s.cached + r - s.row_begin;
        c.attention->append(kv, s.pages[position / kKvPageTokens], position % kKvPageTokens,
                            c.row(Buffer::k, r), c.row(Buffer::v, r));
      }
    }
  }

  // Unit u of a sequence: (row block, KV head, split), the longest blocks first.
  void attend(const StepContext& c, const Team& team, const KvLayerView& kv, const BatchSequence& s,
              int64_t u, int64_t blocks, int64_t splits, int64_t partial) const {
    const int64_t split = u % splits, head = u / splits % op_.kv_heads;
    const int64_t block = blocks - 1 - u / splits / op_.kv_heads;
    const int64_t first = block * kRowBlock;
    const AttentionRows rows{.q = c.row(q_, s.row_begin + first),
                             .out = c.row(out_, s.row_begin + first),
                             .stride = c.memory->width(q_),
                             .rows = std::min(kRowBlock, s.new_rows - first),
                             .first_position = s.cached + first,
                             .pages = s.pages};
    float* scratch = c.memory->attention_scratch(team.index);
    if (splits == 1) {
      c.attention->attend(shape_, kv, rows, head, scratch);
      return;
    }
    // (split, head): one row's heads of one split lie side by side.
    float* out = c.memory->partials() +
                 (partial + split * op_.heads + head * group_) * partial_floats(op_.head_dim);
    c.attention->attend_split(shape_, kv, rows, head, first_split(s) + split, out, scratch);
  }

  void merge(const StepContext& c, const Team& team) const {
    const int64_t floats = partial_floats(op_.head_dim);
    int64_t partial = 0, unit = 0;
    for (const BatchSequence& s : c.batch->sequences()) {
      const int64_t splits = s.new_rows == 1 ? splits_of(s) : 1;
      if (splits == 1) continue;
      for (int64_t h = 0; h < op_.heads; ++h, ++unit)
        if (unit % team.count == team.index)
          c.attention->merge(c.memory->partials() + (partial + h) * floats, splits,
                             op_.heads * floats, op_.head_dim,
                             c.row(out_, s.row_begin) + h * op_.head_dim);
      partial += splits * op_.heads;
    }
  }

  Attention op_;
  AttentionShape shape_;
  Buffer q_, out_;
  int64_t group_;
};

}  // namespace

std::unique_ptr<BoundOp> bind_attention(const Op& op) {
  return std::make_unique<BoundAttention>(std::get<Attention>(op.body), op.in, op.out);
}

}  // namespace ridge
