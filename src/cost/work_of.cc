// SPDX-License-Identifier: Apache-2.0
#include "cost/work_of.h"

#include <fmt/format.h>

#include <array>

#include "kv/layout.h"

namespace ridge {

namespace {

Bytes to_bytes(int64_t n) { return Bytes(static_cast<double>(n)); }

// What an op reads from and writes to each buffer, each element once.
struct Traffic {
  std::array<int64_t, kBufferCount> read{}, written{};  // bytes

  void reads(Buffer b, int64_t elements) {
    int64_t& at = read[static_cast<size_t>(b)];
    at = std::max(at, elements * kActivationBytes);
  }
  void writes(Buffer b, int64_t elements) {
    int64_t& at = written[static_cast<size_t>(b)];
    at = std::max(at, elements * kActivationBytes);
  }
  Bytes total() const {
    int64_t n = 0;
    for (const int64_t bytes : read) n += bytes;
    for (const int64_t bytes : written) n += bytes;
    return to_bytes(n);
  }
};

struct Count {
  const StepShape& shape;
  const Op& op;
  Work work = {};
  Traffic traffic = {};

  void operator()(const Embed& o) {
    work.weight_bytes = to_bytes(shape.rows() * bytes_of(o.table.dtype, o.table.cols));
    traffic.writes(op.out, shape.rows() * o.table.cols);
  }
  void operator()(const RmsNorm& o) {
    const int64_t elements = shape.rows() * o.groups * o.gain.cols;
    work.weight_bytes = to_bytes(o.gain.bytes());
    traffic.reads(op.in, elements);
    if (o.accumulate) traffic.reads(op.out, elements);
    traffic.writes(op.out, elements);
  }
  void operator()(const MatMul& o) {
    const int64_t n = o.logit_rows_only ? shape.logit_rows() : shape.rows();
    if (n == 0) return;
    work.matmul_flops = Flops(2.0 * static_cast<double>(n) * static_cast<double>(o.weight.rows) *
                              static_cast<double>(o.weight.cols));
    work.weight_bytes = to_bytes(o.weight.bytes() + (o.has_bias ? o.bias.bytes() : 0));
    traffic.reads(op.in, n * o.weight.cols);
    if (o.accumulate) traffic.reads(op.out, n * o.weight.rows);
    traffic.writes(op.out, n * o.weight.rows);
  }
  void operator()(const Rope& o) {
    if (o.use_freqs) work.weight_bytes = to_bytes(o.freqs.bytes());
    // Elements past the rotated ones stay where they are.
    const int64_t elements = shape.rows() * o.heads * o.rope.dims;
    traffic.reads(op.in, elements);
    traffic.writes(op.out, elements);
  }
  void operator()(const Attention& o) {
    int64_t attended = 0, unique = 0;
    for (const SequenceShape& s : shape.sequences) {
      const KvTokens tokens = kv_tokens_of(s, o.window);
      attended += tokens.attended;
      unique += tokens.unique;
    }
    const int64_t token_bytes = kv_bytes_per_token_and_layer(o.kv_dtype, o.kv_heads, o.head_dim);
    work.attention_flops = Flops(2.0 * 2.0 * static_cast<double>(attended) *
                                 static_cast<double>(o.heads * o.head_dim));
    work.kv_read_bytes = to_bytes(unique * token_bytes);
    work.kv_write_bytes = to_bytes(shape.rows() * token_bytes);
    traffic.reads(op.in, shape.rows() * o.heads * o.head_dim);
    traffic.reads(Buffer::k, shape.rows() * o.kv_heads * o.head_dim);
    traffic.reads(Buffer::v, shape.rows() * o.kv_heads * o.head_dim);
    traffic.writes(op.out, shape.rows() * o.heads * o.head_dim);
  }
  void operator()(const GatedAct& o) {
    traffic.reads(op.in, shape.rows() * o.width);
    traffic.reads(op.out, shape.rows() * o.width);
    traffic.writes(op.out, shape.rows() * o.width);
  }
  // How often a collective touches its buffers is its algorithm's choice: only the payload counts.
  void operator()(const AllReduce& o) {
    work.wire_bytes = to_bytes(shape.rows() * o.width * kActivationBytes);
  }
  // A part's read counts unless an earlier part made what it reads, or read it too.
  void operator()(const Fused& o) {
    const Rope* turned = nullptr;
    for (const Op& part : o.parts) {
      Count count{shape, part};
      std::visit(count, part.body);
      if (const auto* rope = std::get_if<Rope>(&part.body); rope != nullptr && rope->use_freqs) {
        if (turned != nullptr && turned->freqs.name == rope->freqs.name)
          count.work.weight_bytes = Bytes(0);
        turned = rope;
      }
      work += count.work;
      for (size_t b = 0; b < kBufferCount; ++b) {
        if (traffic.written[b] == 0)
          traffic.read[b] = std::max(traffic.read[b], count.traffic.read[b]);
        traffic.written[b] = std::max(traffic.written[b], count.traffic.written[b]);
      }
    }
    for (const Buffer b : o.internal)
      traffic.read[static_cast<size_t>(b)] = traffic.written[static_cast<size_t>(b)] = 0;
  }
};

}  // namespace

Work work_of(const Op& op, const StepShape& shape) {
  Count count{shape, op};
  std::visit(count, op.body);
  count.work.activation_bytes = count.traffic.total();
  return count.work;
}

Work work_of(const Program& program, const StepShape& shape) {
  Work total;
  for (const Op& op : program.ops) total += work_of(op, shape);
  return total;
}

namespace {

std::string key_of(const Weight& w) {
  return fmt::format("{}x{}:{}", w.rows, w.cols, name_of(w.dtype));
}

struct Key {
  std::string operator()(const Embed& o) const { return key_of(o.table); }
  std::string operator()(const RmsNorm& o) const {
    return fmt::format("{}*{}{}", key_of(o.gain), o.groups, o.accumulate ? "+" : "");
  }
  std::string operator()(const MatMul& o) const {
    return fmt::format("{}{}{}{}", key_of(o.weight), o.has_bias ? key_of(o.bias) : "",
                       o.accumulate ? "+" : "", o.logit_rows_only ? "l" : "");
  }
  std::string operator()(const Rope& o) const {
    return fmt::format("{}*{}{}", o.heads, o.rope.dims,
                       o.use_freqs ? o.freqs.name + key_of(o.freqs) : "");
  }
  std::string operator()(const Attention& o) const {
    return fmt::format("{},{},{},w{},{}", o.heads, o.kv_heads, o.head_dim, o.window,
                       name_of(o.kv_dtype));
  }
  std::string operator()(const GatedAct& o) const { return fmt::format("{}", o.width); }
  std::string operator()(const AllReduce& o) const {
    return fmt::format("{}/{}{}", o.width, o.ranks, o.accumulate ? "+" : "");
  }
  std::string operator()(const Fused& o) const {
    std::string key;
    for (const Op& part : o.parts) key += work_key(part) + ";";
    for (const Buffer b : o.internal) key += name_of(b);
    return key;
  }
};

}  // namespace

std::string work_key(const Op& op) {
  return fmt::format("{}|{}|{}>{}|{}", op.stage, op.body.index(), name_of(op.in), name_of(op.out),
                     std::visit(Key{}, op.body));
}

}  // namespace ridge
