// The fuse pass. Groups are found by how ops follow one another, never by architecture.
// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "program/lower.h"

namespace ridge {

namespace {

using Ops = std::vector<Op>;

bool is_plain_norm(const Op& op) {
  const auto* norm = std::get_if<RmsNorm>(&op.body);
  return norm != nullptr && norm->groups == 1 && !norm->accumulate && op.in != op.out;
}

bool is_in_place_head_op(const Op& op) {
  const auto* norm = std::get_if<RmsNorm>(&op.body);
  return op.in == op.out && (std::holds_alternative<Rope>(op.body) || (norm && !norm->accumulate));
}

// Matrix products in a row that read `in` and overwrite their outputs: [begin, returned).
size_t end_of_products(const Ops& ops, size_t begin, Buffer in) {
  size_t i = begin;
  for (; i < ops.size(); ++i) {
    const auto* product = std::get_if<MatMul>(&ops[i].body);
    if (product == nullptr || ops[i].in != in || product->accumulate || product->logit_rows_only)
      break;
  }
  return i;
}

Op fused(const Ops& ops, size_t begin, size_t end, std::string stage,
         std::vector<Buffer> internal) {
  Fused body{
      Ops(ops.begin() + static_cast<ptrdiff_t>(begin), ops.begin() + static_cast<ptrdiff_t>(end)),
      std::move(internal)};
  const Buffer in = body.parts.front().in, out = body.parts.back().out;
  return {std::move(stage), std::move(body), in, out};
}

// A norm with the products that read it, and the gate that joins two of them: end of the group that
// starts at `begin`, or `begin` if none does.
size_t end_of_block_entry(const Ops& ops, size_t begin) {
  if (!is_plain_norm(ops[begin])) return begin;
  size_t end = end_of_products(ops, begin + 1, ops[begin].out);
  if (end == begin + 1) return begin;
  if (end < ops.size() && std::holds_alternative<GatedAct>(ops[end].body)) ++end;
  return end;
}

}  // namespace

Program fuse(const Program& program) {
  Program out{.width = program.width};
  const Ops& ops = program.ops;
  for (size_t i = 0; i < ops.size();) {
    size_t end = end_of_block_entry(ops, i);
    if (end > i) {
      std::vector<Buffer> internal{ops[i].out};
      if (std::holds_alternative<GatedAct>(ops[end - 1].body)) internal.push_back(ops[end - 1].in);
      out.ops.push_back(fused(ops, i, end, ops[i + 1].stage, std::move(internal)));
      i = end;
      continue;
    }
    end = i;
    while (end < ops.size() && is_in_place_head_op(ops[end])) ++end;
    if (end > i + 1) {
      out.ops.push_back(fused(ops, i, end, "rope", {}));
      i = end;
      continue;
    }
    out.ops.push_back(ops[i++]);
  }
  return out;
}

}  // namespace ridge
