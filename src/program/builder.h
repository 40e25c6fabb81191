// The words that a lowering is written in. Every emit checks that the op accepts what the op before
// it left behind: a wrong width stops here, not in a kernel.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>

#include "program/lower.h"

namespace ridge {

class ProgramBuilder {
 public:
  ProgramBuilder(const ModelSpec& spec, Sharding sharding);

  const ModelSpec& spec() const { return spec_; }
  int64_t heads() const { return spec_.n_heads / ranks_; }
  int64_t kv_heads() const { return spec_.n_kv_heads / ranks_; }
  int64_t q_width() const { return heads() * spec_.head_dim; }
  int64_t kv_width() const { return kv_heads() * spec_.head_dim; }
  int64_t ffn_width() const { return spec_.d_ff / ranks_; }

  void embed(double scale);
  // out = norm(in), over groups of the gain's width.
  void norm(const std::string& stage, const std::string& gain, Buffer in, Buffer out);
  void add_norm(const std::string& stage, const std::string& gain, Buffer in, Buffer out);
  void head_norm(const std::string& stage, const std::string& gain, Buffer heads, int64_t n_heads);
  void matmul(const std::string& stage, const std::string& weight, int64_t rows, Buffer in,
              Buffer out, bool has_bias = false);
  // A block's last product: residual += in W^T, summed over ranks.
  void add_matmul(const std::string& stage, const std::string& weight, Buffer in);
  // The same into the branch buffer, for a norm to come.
  void branch_matmul(const std::string& stage, const std::string& weight, Buffer in);
  void rope(const RopeSpec& rope, Buffer heads, int64_t n_heads);
  void attention(int64_t layer, double scale);
  void gated_act(GateFunction function);
  // The last norm and the head.
  void finish();

  Program take() && { return std::move(program_); }

 private:
  Weight weight(const std::string& name, int64_t rows, int64_t cols) const;
  Weight vector(const std::string& name, int64_t cols) const;
  int64_t& width(Buffer b) { return program_.width[static_cast<size_t>(b)]; }
  void emit_norm(const std::string& stage, const std::string& gain, Buffer in, Buffer out,
                 int64_t groups, bool accumulate);
  // After a product that is split over ranks: out = sum of in over ranks, or out += it.
  void all_reduce(Buffer in, Buffer out);
  void emit_matmul(const std::string& stage, MatMul op, Buffer in, Buffer out);

  const ModelSpec& spec_;
  int64_t ranks_;
  Program program_;
};

}  // namespace ridge
