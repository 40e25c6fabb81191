// SPDX-License-Identifier: Apache-2.0
#include "program/builder.h"

#include "base/check.h"

namespace ridge {

ProgramBuilder::ProgramBuilder(const ModelSpec& spec, Sharding sharding)
    : spec_(spec), ranks_(sharding.tensor_parallel) {}

Weight ProgramBuilder::weight(const std::string& name, int64_t rows, int64_t cols) const {
  const std::string full = name + ".weight";
  const auto found = spec_.dtype_of_weight.find(full);
  return {full, found == spec_.dtype_of_weight.end() ? spec_.default_weight_dtype : found->second,
          rows, cols};
}

Weight ProgramBuilder::vector(const std::string& name, int64_t cols) const {
  const auto found = spec_.dtype_of_weight.find(name);
  return {name, found == spec_.dtype_of_weight.end() ? spec_.default_vector_dtype : found->second,
          1, cols};
}

void ProgramBuilder::embed(double scale) {
  width(Buffer::residual) = spec_.d_model;
  program_.ops.push_back({"embed",
                          Embed{weight("token_embd", spec_.vocab_size, spec_.d_model), scale},
                          Buffer::residual, Buffer::residual});
}

void ProgramBuilder::emit_norm(const std::string& stage, const std::string& gain, Buffer in,
                               Buffer out, int64_t groups, bool accumulate) {
  CHECK(width(in) > 0 && width(in) % groups == 0);
  CHECK(!accumulate || width(out) == width(in));
  width(out) = width(in);
  const Weight w = vector(gain + ".weight", width(in) / groups);
  program_.ops.push_back({stage, RmsNorm{w, spec_.norm_epsilon, groups, accumulate}, in, out});
}

void ProgramBuilder::norm(const std::string& stage, const std::string& gain, Buffer in,
                          Buffer out) {
  emit_norm(stage, gain, in, out, 1, false);
}

void ProgramBuilder::add_norm(const std::string& stage, const std::string& gain, Buffer in,
                              Buffer out) {
  emit_norm(stage, gain, in, out, 1, true);
}

void ProgramBuilder::head_norm(const std::string& stage, const std::string& gain, Buffer heads,
                               int64_t n_heads) {
  emit_norm(stage, gain, heads, heads, n_heads, false);
}

void ProgramBuilder::emit_matmul(const std::string& stage, MatMul op, Buffer in, Buffer out) {
  CHECK(width(in) == op.weight.cols);
  CHECK(!op.accumulate || width(out) == op.weight.rows);
  CHECK(width(out) == 0 || width(out) == op.weight.rows);
  width(out) = op.weight.rows;
  program_.ops.push_back({stage, std::move(op), in, out});
}

void ProgramBuilder::matmul(const std::string& stage, const std::string& name, int64_t rows,
                            Buffer in, Buffer out, bool has_bias) {
  MatMul op{.weight = weight(name, rows, width(in)), .has_bias = has_bias};
  if (has_bias) op.bias = vector(name + ".bias", rows);
  emit_matmul(stage, std::move(op), in, out);
}

void ProgramBuilder::add_matmul(const std::string& stage, const std::string& name, Buffer in) {
  if (ranks_ > 1) {
    // Each rank has a part of the sum: the residual must be added once, not once per rank.
    matmul(stage, name, spec_.d_model, in, Buffer::branch);
    return all_reduce(Buffer::branch, Buffer::residual);
  }
  emit_matmul(stage, {.weight = weight(name, spec_.d_model, width(in)), .accumulate = true}, in,
              Buffer::residual);
}

void ProgramBuilder::branch_matmul(const std::string& stage, const std::string& name, Buffer in) {
  matmul(stage, name, spec_.d_model, in, Buffer::branch);
  if (ranks_ > 1) all_reduce(Buffer::branch, Buffer::branch);
}

void ProgramBuilder::rope(const RopeSpec& rope, Buffer heads, int64_t n_heads) {
  CHECK(width(heads) == n_heads * spec_.head_dim);
  CHECK(rope.dims > 0 && rope.dims <= spec_.head_dim && rope.dims % 2 == 0);
  Rope op{.rope = rope,
          .use_freqs = spec_.has_rope_freqs,
          .heads = n_heads,
          .head_dim = spec_.head_dim};
  if (op.use_freqs) op.freqs = vector("rope_freqs.weight", rope.dims / 2);
  program_.ops.push_back({"rope", std::move(op), heads, heads});
}

void ProgramBuilder::attention(int64_t layer, double scale) {
  CHECK(width(Buffer::q) == q_width());
  CHECK(width(Buffer::k) == kv_width() && width(Buffer::v) == kv_width());
  width(Buffer::attended) = q_width();
  const int64_t window = spec_.is_windowed(layer) ? spec_.sliding_window : 0;
  program_.ops.push_back(
      {"attention",
       Attention{layer, heads(), kv_heads(), spec_.head_dim, window, scale, spec_.kv_dtype},
       Buffer::q, Buffer::attended});
}

void ProgramBuilder::gated_act(GateFunction function) {
  CHECK(width(Buffer::gate) == width(Buffer::up));
  program_.ops.push_back(
      {"gate", GatedAct{function, width(Buffer::gate)}, Buffer::gate, Buffer::up});
}

void ProgramBuilder::all_reduce(Buffer in, Buffer out) {
  CHECK(width(in) == width(out));
  program_.ops.push_back({"all_reduce", AllReduce{width(in), ranks_, in != out}, in, out});
}

void ProgramBuilder::finish() {
  norm("norm", "output_norm", Buffer::residual, Buffer::normed);
  const char* head = spec_.tied_embedding ? "token_embd" : "output";
  // Split over ranks by vocabulary; the largest share, should it not divide. Logits stay where they
  // are: a rank's candidates, not its logits, travel to the sampler.
  const int64_t rows = (spec_.vocab_size + ranks_ - 1) / ranks_;
  emit_matmul("lm_head",
              {.weight = weight(head, rows, width(Buffer::normed)), .logit_rows_only = true},
              Buffer::normed, Buffer::logits);
}

}  // namespace ridge
