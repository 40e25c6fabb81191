// Builds GGUF files in memory for tests: good ones, and ones broken in exactly one place. Nothing
// is validated here. tiny_gguf() is a complete random model of any supported architecture.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "model/spec.h"
#include "tensor/dtype.h"

namespace ridge {

// The value types of GGUF metadata, by their numbers in the file.
enum class GgufType : uint32_t {
  u8,
  i8,
  u16,
  i16,
  u32,
  i32,
  f32,
  boolean,
  string,
  array,
  u64,
  i64,
  f64
};
inline constexpr int kGgufTypeCount = 13;

template <class T>
constexpr GgufType gguf_type_for() {
  if constexpr (std::is_same_v<T, uint8_t>) return GgufType::u8;
  if constexpr (std::is_same_v<T, int8_t>) return GgufType::i8;
  if constexpr (std::is_same_v<T, uint16_t>) return GgufType::u16;
  if constexpr (std::is_same_v<T, int16_t>) return GgufType::i16;
  if constexpr (std::is_same_v<T, uint32_t>) return GgufType::u32;
  if constexpr (std::is_same_v<T, int32_t>) return GgufType::i32;
  if constexpr (std::is_same_v<T, float>) return GgufType::f32;
  if constexpr (std::is_same_v<T, bool>) return GgufType::boolean;
  if constexpr (std::is_same_v<T, uint64_t>) return GgufType::u64;
  if constexpr (std::is_same_v<T, int64_t>) return GgufType::i64;
  if constexpr (std::is_same_v<T, double>) return GgufType::f64;
  return GgufType::string;
}

// Bytes in file order.
class ByteSink {
 public:
  template <class T>
    requires std::is_arithmetic_v<T>
  ByteSink& put(T value) {
    const auto* p = reinterpret_cast<const char*>(&value);
    bytes_.append(p, sizeof value);
    return *this;
  }
  ByteSink& put(const std::string& text) {
    put(static_cast<uint64_t>(text.size()));
    bytes_ += text;
    return *this;
  }
  ByteSink& raw(const std::string& bytes) {
    bytes_ += bytes;
    return *this;
  }
  void pad_to_multiple_of(uint64_t alignment) {
    if (alignment > 0) bytes_.resize((bytes_.size() + alignment - 1) / alignment * alignment);
  }
  uint64_t size() const { return bytes_.size(); }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

struct GgufWriter {
  struct Pair {
    std::string key;
    uint32_t type = 0;
    std::string value;  // as it stands in the file
  };
  struct Tensor {
    std::string name;
    std::vector<uint64_t> dims;  // innermost first
    uint32_t type = 0;
    std::string data;
    std::optional<uint64_t> offset;           // instead of the next free one
    std::optional<uint32_t> dimension_count;  // instead of dims.size()
  };

  std::string magic = "GGUF";
  uint32_t version = 3;
  std::optional<uint64_t> tensor_count, pair_count;  // instead of the true ones
  uint64_t alignment = 32;                           // only how data is laid out
  std::vector<Pair> pairs;
  std::vector<Tensor> tensors;

  // Appends, so that a key can be made to occur twice.
  GgufWriter& append_raw(std::string key, GgufType type, std::string value) {
    pairs.push_back({std::move(key), static_cast<uint32_t>(type), std::move(value)});
    return *this;
  }
  GgufWriter& erase(const std::string& key) {
    std::erase_if(pairs, [&](const Pair& p) { return p.key == key; });
    return *this;
  }
  // Replaces the key if it is there.
  GgufWriter& set_raw(const std::string& key, GgufType type, std::string value) {
    for (Pair& pair : pairs) {
      if (pair.key != key) continue;
      pair.type = static_cast<uint32_t>(type);
      pair.value = std::move(value);
      return *this;
    }
    return append_raw(key, type, std::move(value));
  }
  template <class T>
  GgufWriter& set(const std::string& key, const T& value) {
    if constexpr (std::is_arithmetic_v<T>) {
      return set_raw(key, gguf_type_for<T>(), ByteSink().put(value).bytes());
    } else {
      return set_raw(key, GgufType::string, ByteSink().put(std::string(value)).bytes());
    }
  }
  template <class T>
  GgufWriter& set_array(const std::string& key, const std::vector<T>& values) {
    ByteSink sink;
    sink.put(static_cast<uint32_t>(gguf_type_for<T>())).put(static_cast<uint64_t>(values.size()));
    for (const T& value : values) sink.put(value);
    return set_raw(key, GgufType::array, sink.bytes());
  }
  GgufWriter& add_tensor(std::string name, std::vector<uint64_t> dims, DType dtype,
                         std::string data) {
    tensors.push_back(
        {std::move(name), std::move(dims), gguf_type_of(dtype), std::move(data), {}, {}});
    return *this;
  }
  Tensor& tensor(const std::string& name) {
    return *std::find_if(tensors.begin(), tensors.end(),
                         [&](const Tensor& t) { return t.name == name; });
  }
  void erase_tensor(const std::string& name) {
    std::erase_if(tensors, [&](const Tensor& t) { return t.name == name; });
  }

  // Header, metadata and tensor descriptions, padded to the alignment.
  std::string head() const {
    ByteSink sink;
    sink.raw(magic).put(version);
    sink.put(tensor_count.value_or(tensors.size())).put(pair_count.value_or(pairs.size()));
    for (const Pair& pair : pairs) sink.put(pair.key).put(pair.type).raw(pair.value);
    uint64_t next = 0;
    for (const Tensor& tensor : tensors) {
      sink.put(tensor.name);
      sink.put(tensor.dimension_count.value_or(static_cast<uint32_t>(tensor.dims.size())));
      for (uint64_t dim : tensor.dims) sink.put(dim);
      sink.put(tensor.type).put(tensor.offset.value_or(next));
      next += (tensor.data.size() + alignment - 1) / alignment * alignment;
    }
    sink.pad_to_multiple_of(alignment);
    return sink.bytes();
  }
  std::string build() const {
    ByteSink sink;
    sink.raw(head());
    for (const Tensor& tensor : tensors) {
      sink.raw(tensor.data);
      sink.pad_to_multiple_of(alignment);
    }
    return sink.bytes();
  }
  void write(const std::string& path) const { std::ofstream(path, std::ios::binary) << build(); }
};

// No two of its dimensions are equal, and heads * head_dim is not d_model: a mix-up shows.
struct TinyShape {
  uint32_t layers = 7, d_model = 20, heads = 4, kv_heads = 2, head_dim = 6, d_ff = 36, vocab = 50,
           context = 128, window = 10;
};

// Random F32 numbers around `centre`.
inline std::string random_f32(Rng& rng, uint64_t count, float centre) {
  ByteSink sink;
  for (uint64_t i = 0; i < count; ++i) {
    sink.put(centre + 0.2f * (static_cast<float>(rng.uniform()) - 0.5f));
  }
  return sink.bytes();
}

inline void add_tiny_metadata(GgufWriter& w, Architecture architecture, const TinyShape& s) {
  const std::string arch(name_of(architecture));
  w.set("general.architecture", arch).set("general.name", fmt::format("tiny {}", arch));
  w.set(arch + ".block_count", s.layers).set(arch + ".context_length", s.context);
  w.set(arch + ".embedding_length", s.d_model).set(arch + ".feed_forward_length", s.d_ff);
  w.set(arch + ".attention.head_count", s.heads).set(arch + ".attention.head_count_kv", s.kv_heads);
  w.set(arch + ".attention.key_length", s.head_dim);
  w.set(arch + ".attention.value_length", s.head_dim);
  w.set(arch + ".attention.layer_norm_rms_epsilon", 1e-5f);
  w.set(arch + ".rope.freq_base", 50000.0f).set(arch + ".rope.dimension_count", s.head_dim);
  if (architecture == Architecture::gemma3) w.set(arch + ".attention.sliding_window", s.window);
  std::vector<std::string> tokens;
  for (uint32_t i = 0; i < s.vocab; ++i) tokens.push_back(fmt::format("t{}", i));
  w.set("tokenizer.ggml.model", "gpt2").set_array("tokenizer.ggml.tokens", tokens);
}

inline GgufWriter tiny_gguf(Architecture architecture, const TinyShape& s = {}, uint64_t seed = 1) {
  GgufWriter w;
  add_tiny_metadata(w, architecture, s);
  Rng rng(seed);
  const auto vector = [&](const std::string& name, uint64_t n, float centre) {
    w.add_tensor(name, {n}, DType::f32, random_f32(rng, n, centre));
  };
  const auto matrix = [&](const std::string& name, uint64_t rows, uint64_t cols) {
    w.add_tensor(name, {cols, rows}, DType::f32, random_f32(rng, rows * cols, 0));
  };
  const uint64_t q_width = uint64_t{s.heads} * s.head_dim;
  const uint64_t kv_width = uint64_t{s.kv_heads} * s.head_dim;
  matrix("token_embd.weight", s.vocab, s.d_model);
  for (uint32_t i = 0; i < s.layers; ++i) {
    const std::string blk = fmt::format("blk.{}.", i);
    vector(blk + "attn_norm.weight", s.d_model, 1);
    matrix(blk + "attn_q.weight", q_width, s.d_model);
    matrix(blk + "attn_k.weight", kv_width, s.d_model);
    matrix(blk + "attn_v.weight", kv_width, s.d_model);
    if (architecture == Architecture::qwen2) {
      vector(blk + "attn_q.bias", q_width, 0);
      vector(blk + "attn_k.bias", kv_width, 0);
      vector(blk + "attn_v.bias", kv_width, 0);
    }
    if (architecture == Architecture::qwen3 || architecture == Architecture::gemma3) {
      vector(blk + "attn_q_norm.weight", s.head_dim, 1);
      vector(blk + "attn_k_norm.weight", s.head_dim, 1);
    }
    matrix(blk + "attn_output.weight", s.d_model, q_width);
    if (architecture == Architecture::gemma3) {
      vector(blk + "post_attention_norm.weight", s.d_model, 1);
      vector(blk + "post_ffw_norm.weight", s.d_model, 1);
    }
    vector(blk + "ffn_norm.weight", s.d_model, 1);
    matrix(blk + "ffn_gate.weight", s.d_ff, s.d_model);
    matrix(blk + "ffn_up.weight", s.d_ff, s.d_model);
    matrix(blk + "ffn_down.weight", s.d_model, s.d_ff);
  }
  vector("output_norm.weight", s.d_model, 1);
  return w;
}

}  // namespace ridge
