// The step as data: one forward pass is a list of ops over named buffers. Engine, explainer and
// planner all read this list; none of them knows an architecture.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "model/spec.h"
#include "tensor/dtype.h"

namespace ridge {

// Where an op reads and writes. Each holds one fp32 row per row of the step (logits: per row that
// wants them).
enum class Buffer : uint8_t {
  residual,  // the stream that blocks add to
  normed,    // a normed copy of it
  q,
  k,
  v,
  attended,
  gate,
  up,
  branch,  // a block's result before its post-norm (gemma3)
  logits,
};
inline constexpr int kBufferCount = 10;
const char* name_of(Buffer buffer);

// A weight matrix (rows = outputs, cols = inputs), or a vector (rows = 1).
struct Weight {
  std::string name;
  DType dtype = DType::f32;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t bytes() const { return rows * bytes_of(dtype, cols); }
  int64_t parameters() const { return rows * cols; }
};

// out = table[token] * scale
struct Embed {
  Weight table;
  double scale = 1;
};
// out = norm(in) * gain, or out += that. Over groups of gain.cols elements: a row of `groups` heads
// is normed head by head.
struct RmsNorm {
  Weight gain;
  double epsilon = 0;
  int64_t groups = 1;
  bool accumulate = false;
};
// out = in W^T (+ bias), or out += that.
struct MatMul {
  Weight weight;
  bool has_bias = false;
  Weight bias;  // rows = 1, cols = weight.rows
  bool logit_rows_only = false;
  bool accumulate = false;
};
// Turns `heads` heads of in by the angle of the row's position, in place (in == out).
struct Rope {
  RopeSpec rope;
  bool use_freqs = false;  // divide the angles by `freqs`
  Weight freqs;            // (1, dims / 2)
  int64_t heads = 0;
  int64_t head_dim = 0;
};
// Appends k and v to the cache and attends: in = q.
struct Attention {
  int64_t layer = 0, heads = 0, kv_heads = 0, head_dim = 0;
  int64_t window = 0;  // keys a query sees, itself included; 0: all
  double scale = 0;
  DType kv_dtype = DType::f16;
};
enum class GateFunction : uint8_t { silu, gelu_tanh };
// out = act(in) * out. in = gate, out = up.
struct GatedAct {
  GateFunction function = GateFunction::silu;
  int64_t width = 0;
};
// out = sum of in over ranks, or out += it.
struct AllReduce {
  int64_t width = 0, ranks = 1;
  bool accumulate = false;
};

struct Op;
// Ops that run as one: what lies in `internal` never leaves the chip, and an input that several
// parts share is read once.
struct Fused {
  std::vector<Op> parts;
  std::vector<Buffer> internal;
};

using OpBody = std::variant<Embed, RmsNorm, MatMul, Rope, Attention, GatedAct, AllReduce, Fused>;

struct Op {
  std::string stage;  // what a profile row is called
  OpBody body;
  Buffer in = Buffer::residual, out = Buffer::residual;
};

struct Program {
  std::vector<Op> ops;
  // Elements of one row of each buffer, 0 if unused.
  std::vector<int64_t> width = std::vector<int64_t>(kBufferCount, 0);
};

// Calls visit(const Weight&) for every weight of an op, parts of fused ops included.
template <class Visit>
void for_each_weight(const Op& op, Visit&& visit) {
  struct {
    Visit& visit;
    void operator()(const Embed& o) { visit(o.table); }
    void operator()(const RmsNorm& o) { visit(o.gain); }
    void operator()(const MatMul& o) {
      visit(o.weight);
      if (o.has_bias) visit(o.bias);
    }
    void operator()(const Rope& o) {
      if (o.use_freqs) visit(o.freqs);
    }
    void operator()(const Attention&) {}
    void operator()(const GatedAct&) {}
    void operator()(const AllReduce&) {}
    void operator()(const Fused& o) {
      for (const Op& part : o.parts) for_each_weight(part, visit);
    }
  } visitor{visit};
  std::visit(visitor, op.body);
}

// Each weight of the Program once, in order of first use: a tied table is one tensor.
std::vector<Weight> weights_of(const Program& program);
int64_t parameters_of(const Program& program);

}  // namespace ridge
