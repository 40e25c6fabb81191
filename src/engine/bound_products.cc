// Matrix products that share one input, with the norm before them and the gate after them where the
// Program fused those. The input is normed and quantised once; then the team shares out the tiles
// of all products together.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "engine/bound_op.h"

namespace ridge {

namespace {

class BoundProducts : public BoundOp {
 public:
  struct Product {
    PackedView weight;
    const float* bias = nullptr;
    Buffer out;
    bool accumulate = false;
  };

  void run(const StepContext& c, const Team& team) const override {
    const int64_t rows = logit_rows_only_ ? c.batch->logit_rows() : c.rows();
    if (rows == 0) return;
    const bool own = rows <= kOwnActivationRows;
    ActivationMemory& memory =
        own ? c.memory->own_activations(team.index) : c.memory->shared_activations();
    const ThreadPool::Team::Range share =
        own ? ThreadPool::Team::Range{0, rows} : team.share_of(rows);
    prepare(c, memory, share.begin, share.end);
    if (!own) team.barrier();
    multiply(c, team, memory, rows);
  }

  std::vector<Product> products;
  Buffer in_ = Buffer::residual;
  int64_t cols_ = 0;
  const float* gain_ = nullptr;  // of the norm before, if any
  float epsilon_ = 0;
  bool gated_ = false;
  GatedAct gate_;
  bool logit_rows_only_ = false;
  bool any_int8_ = false, any_float_ = false;

 private:
  // The i-th row that takes part: with logit_rows_only, the last rows of each sequence.
  const float* input_row(const StepContext& c, int64_t i) const {
    if (!logit_rows_only_) return c.row(in_, i);
    for (const BatchSequence& s : c.batch->sequences()) {
      if (i < s.logit_rows) return c.row(in_, s.row_begin + s.new_rows - s.logit_rows + i);
      i -= s.logit_rows;
    }
    CHECK(false);
    return nullptr;
  }

  void prepare(const StepContext& c, ActivationMemory& memory, int64_t begin, int64_t end) const {
    const int64_t blocks = cols_ / kActivationBlock;
    for (int64_t r = begin; r < end; ++r) {
      const float* x = input_row(c, r);
      float* staged = memory.f32() + r * cols_;
      if (gain_ != nullptr) {
        c.vector->rms_norm(x, gain_, epsilon_, cols_, staged);
        x = staged;
      } else if (c.exact || any_float_) {
        std::copy(x, x + cols_, staged);
      }
      if (!c.exact && any_int8_)
        c.matmul->quantize(x, 1, cols_, memory.q8() + r * cols_, memory.scale() + r * blocks,
                           memory.block_sum() + r * blocks);
    }
  }

  void multiply(const StepContext& c, const Team& team, ActivationMemory& memory,
                int64_t rows) const {
    if (gated_) {
      const auto tiles = team.share_of(products[0].weight.tiles());
      multiply_one(c, products[0], memory, rows, tiles.begin, tiles.end);
      multiply_one(c, products[1], memory, rows, tiles.begin, tiles.end);
      apply_gate(c, rows, tiles.begin, tiles.end);
      return;
    }
    int64_t all = 0;
    for (const Product& p : products) all += p.weight.tiles();
    const auto share = team.share_of(all);
    int64_t first = 0;
    for (const Product& p : products) {
      const int64_t n = p.weight.tiles();
      const int64_t begin = std::clamp(share.begin - first, int64_t{0}, n);
      const int64_t end = std::clamp(share.end - first, int64_t{0}, n);
      if (begin < end) multiply_one(c, p, memory, rows, begin, end);
      first += n;
    }
  }

  void multiply_one(const StepContext& c, const Product& p, ActivationMemory& memory, int64_t rows,
                    int64_t tile_begin, int64_t tile_end) const {
    Activations x{.rows = rows, .cols = cols_};
    if (!c.exact && takes_int8(p.weight.dtype)) {
      x.q8 = memory.q8();
      x.scale = memory.scale();
      x.block_sum = memory.block_sum();
    } else {
      x.f32 = memory.f32();
    }
    float* y = c.memory->buffer(p.out);
    const int64_t stride = c.memory->width(p.out);
    c.matmul->matmul(p.weight, x, tile_begin, tile_end, y, stride, p.accumulate);
    if (p.bias == nullptr) return;
    const int64_t begin = tile_begin * kTileRows;
    const int64_t end = std::min(p.weight.rows, tile_end * kTileRows);
    for (int64_t r = 0; r < rows; ++r)
      c.vector->add(p.bias + begin, end - begin, y + r * stride + begin);
  }

  void apply_gate(const StepContext& c, int64_t rows, int64_t tile_begin, int64_t tile_end) const {
    const auto act =
        gate_.function == GateFunction::silu ? Activation::silu : Activation::gelu_tanh;
    const int64_t begin = tile_begin * kTileRows;
    const int64_t end = std::min(gate_.width, tile_end * kTileRows);
    for (int64_t r = 0; r < rows && begin < end; ++r)
      c.vector->gated_act(act, c.row(products[0].out, r) + begin, end - begin,
                          c.row(products[1].out, r) + begin);
  }
};

}  // namespace

std::unique_ptr<BoundOp> bind_products(const std::vector<Op>& parts, const Binding& binding) {
  auto bound = std::make_unique<BoundProducts>();
  for (const Op& op : parts) {
    if (const auto* norm = std::get_if<RmsNorm>(&op.body)) {
      bound->gain_ = binding.weights.vector(norm->gain.name);
      bound->epsilon_ = static_cast<float>(norm->epsilon);
      bound->in_ = op.in;
    } else if (const auto* gate = std::get_if<GatedAct>(&op.body)) {
      CHECK(bound->products.size() == 2 && bound->products[0].out == op.in &&
            bound->products[1].out == op.out);
      bound->gated_ = true;
      bound->gate_ = *gate;
    } else {
      const auto& product = std::get<MatMul>(op.body);
      if (bound->gain_ == nullptr) bound->in_ = op.in;
      bound->cols_ = product.weight.cols;
      bound->logit_rows_only_ = product.logit_rows_only;
      const PackedView view = binding.weights.matrix(product.weight.name);
      (takes_int8(view.dtype) ? bound->any_int8_ : bound->any_float_) = true;
      bound->products.push_back(
          {view, product.has_bias ? binding.weights.vector(product.bias.name) : nullptr, op.out,
           product.accumulate});
    }
  }
  return bound;
}

}  // namespace ridge
