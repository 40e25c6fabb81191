// The ops that work row by row or head by head: embedding, norms, gates, RoPE.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "engine/bound_op.h"

namespace ridge {

namespace {

class BoundEmbed : public BoundOp {
 public:
  BoundEmbed(PackedView table, float scale, Buffer out) : table_(table), scale_(scale), out_(out) {}
  void run(const StepContext& c, const Team& team) const override {
    const auto rows = team.share_of(c.rows());
    for (int64_t r = rows.begin; r < rows.end; ++r) {
      float* out = c.row(out_, r);
      unpack_row(table_, c.batch->tokens()[static_cast<size_t>(r)], out);
      if (scale_ != 1.0f) c.vector->scale(scale_, table_.cols, out);
    }
  }

 private:
  PackedView table_;
  float scale_;
  Buffer out_;
};

class BoundNorm : public BoundOp {
 public:
  BoundNorm(const RmsNorm& op, const float* gain, Buffer in, Buffer out)
      : gain_(gain),
        epsilon_(static_cast<float>(op.epsilon)),
        width_(op.gain.cols),
        groups_(op.groups),
        accumulate_(op.accumulate),
        in_(in),
        out_(out) {}
  void run(const StepContext& c, const Team& team) const override {
    const auto units = team.share_of(c.rows() * groups_);
    for (int64_t u = units.begin; u < units.end; ++u) {
      const int64_t row = u / groups_, at = u % groups_ * width_;
      float* in = c.row(in_, row) + at;
      float* out = c.row(out_, row) + at;
      c.vector->rms_norm(in, gain_, epsilon_, width_, accumulate_ ? in : out);
      if (accumulate_) c.vector->add(in, width_, out);
    }
  }

 private:
  const float* gain_;
  float epsilon_;
  int64_t width_, groups_;
  bool accumulate_;
  Buffer in_, out_;
};

class BoundGate : public BoundOp {
 public:
  BoundGate(const GatedAct& op, Buffer gate, Buffer up) : op_(op), gate_(gate), up_(up) {}
  void run(const StepContext& c, const Team& team) const override {
    const auto rows = team.share_of(c.rows());
    const auto act = op_.function == GateFunction::silu ? Activation::silu : Activation::gelu_tanh;
    for (int64_t r = rows.begin; r < rows.end; ++r)
      c.vector->gated_act(act, c.row(gate_, r), op_.width, c.row(up_, r));
  }

 private:
  GatedAct op_;
  Buffer gate_, up_;
};

// Head norms and RoPE, in place: each (row, head) goes through its buffer's parts in order.
class BoundHeads : public BoundOp {
 public:
  struct Part {
    Buffer buffer;
    const float* gain = nullptr;  // a head norm, else RoPE
    float epsilon = 0;
    size_t table = 0;
    bool adjacent = false;
  };
  struct Heads {
    Buffer buffer;
    int64_t count, head_dim;
  };
  BoundHeads(std::vector<Part> parts, std::vector<Heads> heads)
      : parts_(std::move(parts)), heads_(std::move(heads)) {
    for (const Heads& h : heads_) heads_per_row_ += h.count;
  }
  void run(const StepContext& c, const Team& team) const override {
    const auto units = team.share_of(c.rows() * heads_per_row_);
    for (int64_t u = units.begin; u < units.end; ++u) {
      const int64_t row = u / heads_per_row_;
      int64_t head = u % heads_per_row_;
      size_t set = 0;
      while (head >= heads_[set].count) head -= heads_[set++].count;
      apply(c, heads_[set], row, head);
    }
  }

 private:
  void apply(const StepContext& c, const Heads& heads, int64_t row, int64_t head) const {
    float* x = c.row(heads.buffer, row) + head * heads.head_dim;
    for (const Part& part : parts_) {
      if (part.buffer != heads.buffer) continue;
      if (part.gain != nullptr) {
        c.vector->rms_norm(x, part.gain, part.epsilon, heads.head_dim, x);
      } else {
        const RopeTable& table = (*c.ropes)[part.table];
        c.vector->rope(part.adjacent, table.cos(row), table.sin(row), table.pairs(), x);
      }
    }
  }
  std::vector<Part> parts_;
  std::vector<Heads> heads_;
  int64_t heads_per_row_ = 0;
};

size_t rope_table_for(const Rope& op, Binding& binding) {
  for (size_t i = 0; i < binding.ropes.size(); ++i)
    if (binding.ropes[i].spec() == op.rope && binding.ropes[i].has_freqs() == op.use_freqs)
      return i;
  const float* freqs = op.use_freqs ? binding.weights.vector(op.freqs.name) : nullptr;
  binding.ropes.emplace_back(op.rope, freqs, binding.max_rows);
  return binding.ropes.size() - 1;
}

}  // namespace

std::unique_ptr<BoundOp> bind_embed(const Op& op, const Binding& binding) {
  const auto& embed = std::get<Embed>(op.body);
  return std::make_unique<BoundEmbed>(binding.weights.matrix(embed.table.name),
                                      static_cast<float>(embed.scale), op.out);
}

std::unique_ptr<BoundOp> bind_norm(const Op& op, const Binding& binding) {
  const auto& norm = std::get<RmsNorm>(op.body);
  return std::make_unique<BoundNorm>(norm, binding.weights.vector(norm.gain.name), op.in, op.out);
}

std::unique_ptr<BoundOp> bind_gate(const Op& op) {
  return std::make_unique<BoundGate>(std::get<GatedAct>(op.body), op.in, op.out);
}

std::unique_ptr<BoundOp> bind_heads(const std::vector<Op>& ops, Binding& binding) {
  std::vector<BoundHeads::Part> parts;
  std::vector<BoundHeads::Heads> heads;
  for (const Op& op : ops) {
    BoundHeads::Part part{.buffer = op.in};
    BoundHeads::Heads set{.buffer = op.in};
    if (const auto* norm = std::get_if<RmsNorm>(&op.body)) {
      part.gain = binding.weights.vector(norm->gain.name);
      part.epsilon = static_cast<float>(norm->epsilon);
      set.count = norm->groups;
      set.head_dim = norm->gain.cols;
    } else {
      const auto& rope = std::get<Rope>(op.body);
      part.table = rope_table_for(rope, binding);
      part.adjacent = rope.rope.pairing == RopePairing::adjacent;
      set.count = rope.heads;
      set.head_dim = rope.head_dim;
    }
    parts.push_back(part);
    const auto same = std::find_if(heads.begin(), heads.end(),
                                   [&](const auto& h) { return h.buffer == set.buffer; });
    if (same == heads.end())
      heads.push_back(set);
    else
      CHECK(same->count == set.count && same->head_dim == set.head_dim);
  }
  return std::make_unique<BoundHeads>(std::move(parts), std::move(heads));
}

}  // namespace ridge
