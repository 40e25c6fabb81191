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

  // Rounding shows most in the logits, so the head's activations are kept twice: their int8 value
  // and the int8 value of what that left. The second row rides on the same read of the weights.
  bool in_pairs(const StepContext& c) const { return logit_rows_only_ && any_int8_ && !c.exact; }

  void prepare(const StepContext& c, ActivationMemory& memory, int64_t begin, int64_t end) const {
    const int64_t per_row = in_pairs(c) ? 2 : 1;
    for (int64_t r = begin; r < end; ++r) {
      const float* x = input_row(c, r);
      float* staged = memory.f32() + r * per_row * cols_;
      if (gain_ != nullptr) {
        c.vector->rms_norm(x, gain_, epsilon_, cols_, staged);
        x = staged;
      } else if (c.exact || any_float_) {
        std::copy(x, x + cols_, staged);
      }
      if (c.exact || !any_int8_) continue;
      quantize(c, memory, r * per_row, x);
      if (per_row == 2) quantize_remainder(c, memory, r * per_row, x);
    }
  }

  void quantize(const StepContext& c, ActivationMemory& memory, int64_t row, const float* x) const {
    const int64_t blocks = cols_ / kActivationBlock;
    c.matmul->quantize(x, 1, cols_, memory.q8() + row * cols_, memory.scale() + row * blocks,
                       memory.block_sum() + row * blocks);
  }

  void quantize_remainder(const StepContext& c, ActivationMemory& memory, int64_t row,
                          const float* x) const {
    const int8_t* q = memory.q8() + row * cols_;
    const float* scale = memory.scale() + row * (cols_ / kActivationBlock);
    float* rest = memory.f32() + (row + 1) * cols_;
    for (int64_t i = 0; i < cols_; ++i)
      rest[i] = x[i] - scale[i / kActivationBlock] * static_cast<float>(q[i]);
    quantize(c, memory, row + 1, rest);
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

  static Activations int8_rows(ActivationMemory& memory, int64_t first, int64_t rows,
                               int64_t cols) {
    const int64_t blocks = cols / kActivationBlock;
    return {.rows = rows,
            .cols = cols,
            .q8 = memory.q8() + first * cols,
            .scale = memory.scale() + first * blocks,
            .block_sum = memory.block_sum() + first * blocks};
  }

  void multiply_one(const StepContext& c, const Product& p, ActivationMemory& memory, int64_t rows,
                    int64_t tile_begin, int64_t tile_end) const {
    const bool is_int8 = !c.exact && takes_int8(p.weight.dtype);
    if (is_int8 && in_pairs(c)) return multiply_pairs(c, p, memory, rows, tile_begin, tile_end);
    const Activations x = is_int8 ? int8_rows(memory, 0, rows, cols_)
                                  : Activations{.rows = rows, .cols = cols_, .f32 = memory.f32()};
    float* y = c.memory->buffer(p.out);
    const int64_t stride = c.memory->width(p.out);
    c.matmul->matmul(p.weight, x, tile_begin, tile_end, y, stride, p.accumulate);
    if (p.bias == nullptr) return;
    const int64_t begin = tile_begin * kTileRows;
    const int64_t end = std::min(p.weight.rows, tile_end * kTileRows);
    for (int64_t r = 0; r < rows; ++r)
      c.vector->add(p.bias + begin, end - begin, y + r * stride + begin);
  }

  // y = (value row) W^T + (remainder row) W^T, some tiles at a time: their weights stay in a cache
  // for the next row.
  void multiply_pairs(const StepContext& c, const Product& p, ActivationMemory& memory,
                      int64_t rows, int64_t tile_begin, int64_t tile_end) const {
    constexpr int64_t kChunkTiles = 128, kChunk = kChunkTiles * kTileRows;
    alignas(64) float parts[2 * kChunk];
    const int64_t tile_bytes = packed_bytes(p.weight.dtype, kTileRows, cols_);
    for (int64_t tile = tile_begin; tile < tile_end; tile += kChunkTiles) {
      const int64_t first = tile * kTileRows;
      const int64_t n = std::min({kChunk, p.weight.rows - first, (tile_end - tile) * kTileRows});
      const PackedView w{p.weight.data + tile * tile_bytes, p.weight.dtype, n, cols_};
      for (int64_t r = 0; r < rows; ++r) {
        c.matmul->matmul(w, int8_rows(memory, 2 * r, 2, cols_), 0, w.tiles(), parts, kChunk, false);
        float* y = c.memory->buffer(p.out) + r * c.memory->width(p.out) + first;
        for (int64_t i = 0; i < n; ++i) y[i] = parts[i] + parts[kChunk + i];
      }
    }
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
