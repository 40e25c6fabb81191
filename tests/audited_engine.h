// An engine of plain ops on memory that remembers which elements were touched, to hold work_of
// against. Invariant: what it reports is counted from loads, stores and multiply-adds that were
// made; it contains no formula for bytes or FLOPs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/rng.h"
#include "cost/work.h"
#include "program/op.h"
#include "program/step_shape.h"

namespace ridge {

// Elements of one dtype; touching one touches its whole block, and each block counts once per op.
class AuditedMemory {
 public:
  // A read of what the same op wrote before: out of registers for a step's buffers, a real read for
  // the cache (work.h: "this step's own included").
  enum class OwnWrites { free, counted };

  AuditedMemory(int64_t elements, DType dtype, OwnWrites own_writes)
      : values_(static_cast<size_t>(elements)),
        block_(block_format(dtype)),
        own_writes_counted_(own_writes == OwnWrites::counted) {
    const auto blocks = static_cast<size_t>((elements + block_.elements - 1) / block_.elements);
    read_at_.resize(blocks);
    written_at_.resize(blocks);
  }

  float load(int64_t i) {
    const size_t block = block_of(i);
    if (read_at_[block] != op_ && (own_writes_counted_ || written_at_[block] != op_)) {
      read_at_[block] = op_;
      bytes_read_ += block_.bytes;
    }
    return values_[static_cast<size_t>(i)];
  }
  void store(int64_t i, float value) {
    const size_t block = block_of(i);
    if (written_at_[block] != op_) {
      written_at_[block] = op_;
      bytes_written_ += block_.bytes;
    }
    values_[static_cast<size_t>(i)] = value;
  }
  // Set-up and inspection, uncounted.
  float& peek(int64_t i) { return values_.at(static_cast<size_t>(i)); }
  int64_t size() const { return static_cast<int64_t>(values_.size()); }
  int64_t bytes_read() const { return bytes_read_; }
  int64_t bytes_written() const { return bytes_written_; }
  void forget() {
    ++op_;
    bytes_read_ = bytes_written_ = 0;
  }

 private:
  size_t block_of(int64_t i) const {
    CHECK(i >= 0 && i < size());
    return static_cast<size_t>(i / block_.elements);
  }

  std::vector<float> values_;
  BlockFormat block_;
  bool own_writes_counted_;
  uint32_t op_ = 1;
  std::vector<uint32_t> read_at_, written_at_;  // (blocks) the op that last did
  int64_t bytes_read_ = 0, bytes_written_ = 0;
};

class AuditedEngine {
 public:
  // Keys and values of a layer and sequence: made at random, so that a step may start with a cache.
  AuditedEngine(const Program& program, std::vector<int64_t> tokens_per_sequence)
      : width_(program.width), capacity_(std::move(tokens_per_sequence)) {
    for (const Op& op : program.ops) make_memory(op);
  }

  // `tokens`: one id per row.
  void begin_step(const StepShape& shape, std::vector<int64_t> tokens) {
    CHECK(shape.rows() == static_cast<int64_t>(tokens.size()));
    CHECK(shape.sequences.size() == capacity_.size());
    shape_ = shape;
    tokens_ = std::move(tokens);
    buffers_.clear();
    for (int b = 0; b < kBufferCount; ++b)
      buffers_.emplace_back(shape.rows() * width_[static_cast<size_t>(b)], DType::f32,
                            AuditedMemory::OwnWrites::free);
  }

  // Runs the op and returns what it really did.
  Work execute(const Op& op) {
    for (auto& b : buffers_) b.forget();
    for (auto& [name, w] : weights_) w.forget();
    for (auto& [key, c] : cache_) c.forget();
    matmul_flops_ = attention_flops_ = wire_elements_ = 0;
    internal_.clear();
    run(op);
    return counted();
  }

  float value(Buffer buffer, int64_t i) { return at(buffer).peek(i); }
  int64_t width(Buffer buffer) const { return width_[static_cast<size_t>(buffer)]; }

 private:
  struct CacheKey {
    int64_t layer;
    size_t sequence;
    bool is_value;
    auto operator<=>(const CacheKey&) const = default;
  };

  AuditedMemory& at(Buffer b) { return buffers_.at(static_cast<size_t>(b)); }
  AuditedMemory& at(const Weight& w) { return weights_.at(w.name); }

  // Seeded by what it is for: equal for any two Programs of one model.
  static void fill(AuditedMemory& memory, const std::string& what) {
    uint64_t seed = 1;
    for (const char c : what) seed = seed * 131 + static_cast<unsigned char>(c);
    Rng rng(seed);
    for (int64_t i = 0; i < memory.size(); ++i)
      memory.peek(i) = static_cast<float>(rng.uniform() - 0.5);
  }

  void make_memory(const Op& op) {
    for_each_weight(op, [&](const Weight& w) {
      const auto [it, is_new] =
          weights_.try_emplace(w.name, w.parameters(), w.dtype, AuditedMemory::OwnWrites::counted);
      if (is_new) fill(it->second, w.name);
    });
    if (const auto* attention = std::get_if<Attention>(&op.body)) {
      for (size_t s = 0; s < capacity_.size(); ++s)
        for (const bool is_value : {false, true}) {
          const auto [it, is_new] =
              cache_.try_emplace(CacheKey{attention->layer, s, is_value},
                                 capacity_[s] * attention->kv_heads * attention->head_dim,
                                 attention->kv_dtype, AuditedMemory::OwnWrites::counted);
          CHECK(is_new);
          fill(it->second, "cache " + std::to_string(attention->layer * 64 +
                                                     static_cast<int64_t>(s * 2) + is_value));
        }
    }
    if (const auto* fused = std::get_if<Fused>(&op.body))
      for (const Op& part : fused->parts) make_memory(part);
  }

  Work counted() {
    int64_t activations = 0, weights = 0, kv_read = 0, kv_written = 0;
    for (size_t b = 0; b < buffers_.size(); ++b) {
      bool is_internal = false;
      for (const Buffer i : internal_) is_internal |= static_cast<size_t>(i) == b;
      if (!is_internal) activations += buffers_[b].bytes_read() + buffers_[b].bytes_written();
    }
    for (const auto& [name, w] : weights_) weights += w.bytes_read();
    for (const auto& [key, c] : cache_) {
      kv_read += c.bytes_read();
      kv_written += c.bytes_written();
    }
    const auto bytes = [](int64_t n) { return Bytes(static_cast<double>(n)); };
    return {.matmul_flops = Flops(static_cast<double>(matmul_flops_)),
            .attention_flops = Flops(static_cast<double>(attention_flops_)),
            .weight_bytes = bytes(weights),
            .kv_read_bytes = bytes(kv_read),
            .kv_write_bytes = bytes(kv_written),
            .activation_bytes = bytes(activations),
            .wire_bytes = bytes(wire_elements_ * static_cast<int64_t>(sizeof(float)))};
  }

  void run(const Op& op) {
    std::visit([&](const auto& body) { run(body, op); }, op.body);
  }

  void run(const Embed& o, const Op& op) {
    const int64_t n = o.table.cols;
    for (int64_t r = 0; r < shape_.rows(); ++r)
      for (int64_t c = 0; c < n; ++c)
        at(op.out).store(r * n + c, at(o.table).load(tokens_[static_cast<size_t>(r)] * n + c) *
                                        static_cast<float>(o.scale));
  }

  void run(const RmsNorm& o, const Op& op) {
    AuditedMemory &in = at(op.in), &out = at(op.out), &gain = at(o.gain);
    const int64_t n = o.gain.cols;
    for (int64_t group = 0; group < shape_.rows() * o.groups; ++group) {
      double sum = 0;
      for (int64_t c = 0; c < n; ++c) sum += std::pow(in.load(group * n + c), 2);
      const double scale = 1 / std::sqrt(sum / static_cast<double>(n) + o.epsilon);
      for (int64_t c = 0; c < n; ++c) {
        const float normed = static_cast<float>(in.load(group * n + c) * scale) * gain.load(c);
        out.store(group * n + c, o.accumulate ? out.load(group * n + c) + normed : normed);
      }
    }
  }

  void run(const MatMul& o, const Op& op) {
    int64_t row = 0, out_row = 0;
    for (const SequenceShape& s : shape_.sequences) {
      const int64_t first = o.logit_rows_only ? s.new_rows - s.logit_rows : 0;
      for (int64_t r = first; r < s.new_rows; ++r)
        multiply_row(o, at(op.in), row + r, at(op.out), out_row++);
      row += s.new_rows;
    }
  }

  void multiply_row(const MatMul& o, AuditedMemory& in, int64_t in_row, AuditedMemory& out,
                    int64_t out_row) {
    AuditedMemory& w = at(o.weight);
    const int64_t n = o.weight.cols;
    for (int64_t i = 0; i < o.weight.rows; ++i) {
      float sum = 0;
      for (int64_t c = 0; c < n; ++c) {
        sum += w.load(i * n + c) * in.load(in_row * n + c);
        matmul_flops_ += 2;
      }
      if (o.has_bias) sum += at(o.bias).load(i);
      const int64_t to = out_row * o.weight.rows + i;
      out.store(to, o.accumulate ? out.load(to) + sum : sum);
    }
  }

  void run(const Rope& o, const Op& op) {
    CHECK(op.in == op.out);
    int64_t row = 0;
    for (const SequenceShape& s : shape_.sequences)
      for (int64_t r = 0; r < s.new_rows; ++r, ++row)
        for (int64_t h = 0; h < o.heads; ++h)
          turn_head(o, at(op.in), (row * o.heads + h) * o.head_dim, s.cached + r);
  }

  void turn_head(const Rope& o, AuditedMemory& x, int64_t begin, int64_t position) {
    const int64_t pairs = o.rope.dims / 2;
    const bool adjacent = o.rope.pairing == RopePairing::adjacent;
    for (int64_t i = 0; i < pairs; ++i) {
      double angle = static_cast<double>(position) / o.rope.factor *
                     std::pow(o.rope.base, -static_cast<double>(i) / static_cast<double>(pairs));
      if (o.use_freqs) angle /= 1 + std::abs(at(o.freqs).load(i));
      const int64_t a = begin + (adjacent ? 2 * i : i), b = adjacent ? a + 1 : a + pairs;
      const double u = x.load(a), v = x.load(b);
      x.store(a, static_cast<float>(u * std::cos(angle) - v * std::sin(angle)));
      x.store(b, static_cast<float>(u * std::sin(angle) + v * std::cos(angle)));
    }
  }

  void run(const Attention& o, const Op& op) {
    const int64_t kv_width = o.kv_heads * o.head_dim;
    int64_t row = 0;
    for (size_t s = 0; s < shape_.sequences.size(); ++s) {
      const SequenceShape& sequence = shape_.sequences[s];
      AuditedMemory& keys = cache_.at({o.layer, s, false});
      AuditedMemory& values = cache_.at({o.layer, s, true});
      for (int64_t r = 0; r < sequence.new_rows; ++r)
        for (int64_t c = 0; c < kv_width; ++c) {
          const int64_t to = (sequence.cached + r) * kv_width + c;
          keys.store(to, at(Buffer::k).load((row + r) * kv_width + c));
          values.store(to, at(Buffer::v).load((row + r) * kv_width + c));
        }
      for (int64_t r = 0; r < sequence.new_rows; ++r, ++row)
        for (int64_t h = 0; h < o.heads; ++h)
          attend(o, h, sequence.cached + r, (row * o.heads + h) * o.head_dim, op, keys, values);
    }
  }

  // One query head at `position`; its query and result lie at `q_at`.
  void attend(const Attention& o, int64_t head, int64_t position, int64_t q_at, const Op& op,
              AuditedMemory& keys, AuditedMemory& values) {
    const int64_t kv_at = head / (o.heads / o.kv_heads) * o.head_dim;
    const auto cached_at = [&](int64_t t) { return t * o.kv_heads * o.head_dim + kv_at; };
    std::vector<double> p(static_cast<size_t>(position + 1));
    double total = 0;
    for (int64_t t = 0; t <= position; ++t) {
      if (o.window > 0 && t <= position - o.window) continue;
      double score = 0;
      for (int64_t c = 0; c < o.head_dim; ++c, attention_flops_ += 2)
        score += at(op.in).load(q_at + c) * keys.load(cached_at(t) + c);
      total += p[static_cast<size_t>(t)] = std::exp(score * o.scale);
    }
    for (int64_t c = 0; c < o.head_dim; ++c) {
      double sum = 0;
      for (int64_t t = 0; t <= position; ++t) {
        if (o.window > 0 && t <= position - o.window) continue;
        sum += p[static_cast<size_t>(t)] * values.load(cached_at(t) + c);
        attention_flops_ += 2;
      }
      at(op.out).store(q_at + c, static_cast<float>(sum / total));
    }
  }

  void run(const GatedAct& o, const Op& op) {
    AuditedMemory &gate = at(op.in), &up = at(op.out);
    for (int64_t i = 0; i < shape_.rows() * o.width; ++i) {
      const double g = gate.load(i);
      const double act =
          o.function == GateFunction::silu
              ? g / (1 + std::exp(-g))
              : g / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (g + 0.044715 * g * g * g)));
      up.store(i, static_cast<float>(act) * up.load(i));
    }
  }

  // The other ranks are not here: each element of the payload goes onto the wire once.
  void run(const AllReduce& o, const Op& op) {
    CHECK((op.in == op.out) != o.accumulate);
    for (int64_t i = 0; i < shape_.rows() * o.width; ++i) {
      at(op.in).peek(i);
      ++wire_elements_;
    }
  }

  void run(const Fused& o, const Op&) {
    for (const Op& part : o.parts) run(part);
    internal_ = o.internal;
  }

  std::vector<int64_t> width_, capacity_;
  StepShape shape_;
  std::vector<int64_t> tokens_;
  std::vector<AuditedMemory> buffers_;
  std::map<std::string, AuditedMemory> weights_;
  std::map<CacheKey, AuditedMemory> cache_;
  std::vector<Buffer> internal_;
  int64_t matmul_flops_ = 0, attention_flops_ = 0, wire_elements_ = 0;
};

}  // namespace ridge
