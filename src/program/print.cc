// SPDX-License-Identifier: Apache-2.0
#include "program/print.h"

#include <fmt/format.h>

namespace ridge {

namespace {

std::string text_of(const Weight& w) {
  return w.rows == 1 ? fmt::format("{} {} {}", w.name, w.cols, name_of(w.dtype))
                     : fmt::format("{} {}x{} {}", w.name, w.rows, w.cols, name_of(w.dtype));
}

struct Line {
  std::string kind, arrow, details;
};

std::string rope_text(const Rope& o) {
  std::string text = fmt::format(
      "{} heads, {} of {} elements, base {:g}, {}", o.heads, o.rope.dims, o.head_dim, o.rope.base,
      o.rope.pairing == RopePairing::adjacent ? "adjacent pairs" : "half-split pairs");
  if (o.rope.factor != 1) text += fmt::format(", positions / {:g}", o.rope.factor);
  if (o.use_freqs) text += ", angles / " + text_of(o.freqs);
  return text;
}

struct LineOf {
  const Op& op;

  Line operator()(const Embed& o) const {
    return {"embed", fmt::format("tokens -> {}", name_of(op.out)),
            text_of(o.table) + (o.scale == 1 ? "" : fmt::format(", times {:g}", o.scale))};
  }
  Line operator()(const RmsNorm& o) const {
    return {"rmsnorm", arrow(o.accumulate),
            text_of(o.gain) + (o.groups == 1 ? "" : fmt::format(" on each of {} heads", o.groups))};
  }
  Line operator()(const MatMul& o) const {
    std::string text = text_of(o.weight);
    if (o.has_bias) text += " + " + text_of(o.bias);
    if (o.logit_rows_only) text += ", rows that want logits";
    return {"matmul", arrow(o.accumulate), text};
  }
  Line operator()(const Rope& o) const { return {"rope", arrow(false), rope_text(o)}; }
  Line operator()(const Attention& o) const {
    std::string text =
        fmt::format("layer {}, {} heads on {} KV heads of {}, {} cache, scale {:.6g}", o.layer,
                    o.heads, o.kv_heads, o.head_dim, name_of(o.kv_dtype), o.scale);
    if (o.window > 0) text += fmt::format(", window {}", o.window);
    return {"attention", fmt::format("q, k, v -> {}", name_of(op.out)), text};
  }
  Line operator()(const GatedAct& o) const {
    return {o.function == GateFunction::silu ? "silu gate" : "gelu gate",
            fmt::format("{}, {} -> {}", name_of(op.in), name_of(op.out), name_of(op.out)),
            fmt::format("{} wide", o.width)};
  }
  Line operator()(const AllReduce& o) const {
    return {"all-reduce", arrow(o.accumulate),
            fmt::format("{} wide over {} ranks", o.width, o.ranks)};
  }
  Line operator()(const Fused& o) const {
    std::string text;
    for (const Op& part : o.parts) {
      const Line line = std::visit(LineOf{part}, part.body);
      text += fmt::format("{}{} ({}) {}", text.empty() ? "" : "; ", line.kind, line.arrow,
                          line.details);
    }
    for (const Buffer b : o.internal)
      text += fmt::format("{}{}", b == o.internal.front() ? "; on chip: " : ", ", name_of(b));
    return {"fused", arrow(false), text};
  }

 private:
  std::string arrow(bool accumulate) const {
    return fmt::format("{} {} {}", name_of(op.in), accumulate ? "+>" : "->", name_of(op.out));
  }
};

}  // namespace

std::string describe(const Op& op) {
  const Line line = std::visit(LineOf{op}, op.body);
  return fmt::format("{:<10} {:<10} {:<21} {}", op.stage, line.kind, line.arrow, line.details);
}

}  // namespace ridge
