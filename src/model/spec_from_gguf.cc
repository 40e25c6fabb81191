// SPDX-License-Identifier: Apache-2.0
#include "model/spec_from_gguf.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "model/arch_defaults.h"
#include "model/quote.h"
#include "tensor/codec.h"

namespace ridge {
namespace {

constexpr std::array kArchitectures = {Architecture::llama, Architecture::qwen2,
                                       Architecture::qwen3, Architecture::gemma3};

// Keys that would change the forward pass in ways that no lowering here expresses. Zero and false
// mean "off" in all of them.
constexpr const char* kUnsupportedKeys[] = {
    "expert_count",
    "expert_used_count",
    "attention.scale",
    "attention.output_scale",
    "attention.temperature_length",
    "attention.temperature_scale",
    "attention.clamp_kqv",
    "attention.max_alibi_bias",
    "attention.shared_kv_layers",
    "attention.q_lora_rank",
    "attention.kv_lora_rank",
    "attn_logit_softcapping",
    "final_logit_softcapping",
    "logit_scale",
    "residual_scale",
    "embedding_scale",
    "embedding_length_per_layer_input",
    "nextn_predict_layers",
    "full_attention_interval",
    "use_parallel_residual",
    "swin_norm",
    "rope.dimension_sections",
};

struct IsOff {
  bool operator()(uint64_t v) const { return v == 0; }
  bool operator()(int64_t v) const { return v == 0; }
  bool operator()(double v) const { return v == 0; }
  bool operator()(bool v) const { return !v; }
  template <class T>
  bool operator()(const T&) const {
    return false;
  }
};

class SpecReader {
 public:
  explicit SpecReader(const GgufFile& file) : file_(file) {}
  Result<ModelSpec> read();

 private:
  template <class... Args>
  Error bad(fmt::format_string<Args...> format, Args&&... args) const {
    return {ErrorCode::invalid_input,
            fmt::format("{}: {}", file_.path(), fmt::format(format, std::forward<Args>(args)...))};
  }
  template <class... Args>
  Error unsupported(fmt::format_string<Args...> format, Args&&... args) const {
    Error error = bad(format, std::forward<Args>(args)...);
    error.code = ErrorCode::not_supported;
    return error;
  }

  std::string key(std::string_view suffix) const { return fmt::format("{}.{}", prefix_, suffix); }
  bool has(std::string_view suffix) const { return file_.has(key(suffix)); }
  // An integer from `low` to `high`; an array of them only if all are equal.
  Result<int64_t> integer(std::string_view suffix, int64_t low, int64_t high) const;
  Result<int64_t> integer_or(std::string_view suffix, int64_t low, int64_t high,
                             int64_t fallback) const;
  // A finite number above 0, at most `high`.
  Result<double> positive(std::string_view suffix, double high) const;

  Status read_architecture();
  Status refuse_unsupported() const;
  Status read_widths();
  Status read_heads();
  Status read_head_dim();
  Status read_vocabulary();
  Status read_rope();
  Status read_rope_scaling();
  Status read_rope_freqs();
  Status read_windows();
  Status read_window_pattern();

  const GgufFile& file_;
  std::string prefix_;
  ModelSpec spec_;
};

template <class T>
const T* first_if_all_equal(const std::vector<T>& values) {
  for (const T& value : values) {
    if (value != values.front()) return nullptr;
  }
  return values.empty() ? nullptr : &values.front();
}

Result<int64_t> SpecReader::integer(std::string_view suffix, int64_t low, int64_t high) const {
  const std::string full = key(suffix);
  int64_t value = 0;
  const auto found = file_.metadata().find(full);
  const auto* unsigned_array = found == file_.metadata().end()
                                   ? nullptr
                                   : std::get_if<std::vector<uint64_t>>(&found->second);
  const auto* signed_array =
      found == file_.metadata().end() ? nullptr : std::get_if<std::vector<int64_t>>(&found->second);
  if (unsigned_array != nullptr || signed_array != nullptr) {
    const uint64_t* u = unsigned_array ? first_if_all_equal(*unsigned_array) : nullptr;
    const int64_t* i = signed_array ? first_if_all_equal(*signed_array) : nullptr;
    if (u == nullptr && i == nullptr) {
      return unsupported(
          "metadata key '{}' is an array that differs from layer to layer; "
          "ridge reads models whose layers are alike",
          full);
    }
    value = u != nullptr ? static_cast<int64_t>(std::min<uint64_t>(*u, INT64_MAX)) : *i;
  } else {
    RIDGE_TRY(value, file_.integer(full));
  }
  if (value < low || value > high) {
    return bad("metadata key '{}' is {}, expected {} to {}", full, value, low, high);
  }
  return value;
}

Result<int64_t> SpecReader::integer_or(std::string_view suffix, int64_t low, int64_t high,
                                       int64_t fallback) const {
  if (!has(suffix)) return fallback;
  return integer(suffix, low, high);
}

Result<double> SpecReader::positive(std::string_view suffix, double high) const {
  RIDGE_TRY(const double value, file_.number(key(suffix)));
  if (!(value > 0 && value <= high)) {
    return bad("metadata key '{}' is {}, expected a number above 0, at most {}", key(suffix), value,
               high);
  }
  return value;
}

Status SpecReader::read_architecture() {
  if (file_.has("general.type")) {
    RIDGE_TRY(const std::string type, file_.string("general.type"));
    if (type != "model") {
      return unsupported("the file holds {} (general.type), expected 'model'", quoted(type));
    }
  }
  RIDGE_TRY(const std::string name, file_.string("general.architecture"));
  std::string supported;
  for (Architecture architecture : kArchitectures) {
    if (name_of(architecture) == name) {
      spec_.architecture = architecture;
      prefix_ = name;
      return {};
    }
    if (!supported.empty()) supported += ", ";
    supported += name_of(architecture);
  }
  return unsupported("the architecture {} is not supported; supported are {}", quoted(name),
                     supported);
}

Status SpecReader::refuse_unsupported() const {
  for (const char* suffix : kUnsupportedKeys) {
    const auto found = file_.metadata().find(key(suffix));
    if (found == file_.metadata().end() || std::visit(IsOff{}, found->second)) continue;
    const bool experts = std::string_view(suffix).starts_with("expert");
    return unsupported("metadata key '{}' asks for {}, which is not supported yet", key(suffix),
                       experts ? "a mixture of experts" : "a different forward pass");
  }
  if (has("attention.causal")) {
    RIDGE_TRY(const bool causal, file_.boolean(key("attention.causal")));
    if (!causal) return unsupported("the model is not causal: it does not generate text");
  }
  return {};
}

Status SpecReader::read_widths() {
  spec_.name = file_.path();
  if (file_.has("general.name")) {
    RIDGE_TRY(spec_.name, file_.string("general.name"));
  }
  RIDGE_TRY(spec_.n_layers, integer("block_count", 1, kMaxLayers));
  RIDGE_TRY(spec_.d_model, integer("embedding_length", 1, kMaxWidth));
  RIDGE_TRY(spec_.d_ff, integer("feed_forward_length", 1, kMaxWidth));
  RIDGE_TRY(spec_.context_length, integer("context_length", 1, kMaxContext));
  constexpr double kMaxEpsilon = 0.1;  // real models have 1e-6 to 1e-5
  RIDGE_TRY(spec_.norm_epsilon, positive("attention.layer_norm_rms_epsilon", kMaxEpsilon));
  return {};
}

Status SpecReader::read_heads() {
  RIDGE_TRY(spec_.n_heads, integer("attention.head_count", 1, kMaxHeads));
  RIDGE_TRY(spec_.n_kv_heads,
            integer_or("attention.head_count_kv", 1, spec_.n_heads, spec_.n_heads));
  if (spec_.n_heads % spec_.n_kv_heads != 0) {
    return bad("{} attention heads cannot share {} KV heads evenly ('{}')", spec_.n_heads,
               spec_.n_kv_heads, key("attention.head_count_kv"));
  }
  return {};
}

Status SpecReader::read_head_dim() {
  if (!has("attention.key_length") && spec_.d_model % spec_.n_heads != 0) {
    return bad("metadata key '{}' is missing, and the width {} is not a multiple of {} heads",
               key("attention.key_length"), spec_.d_model, spec_.n_heads);
  }
  const int64_t usual = spec_.d_model / spec_.n_heads;
  RIDGE_TRY(spec_.head_dim, integer_or("attention.key_length", 1, kMaxHeadDim, usual));
  RIDGE_TRY(const int64_t value_length,
            integer_or("attention.value_length", 1, kMaxHeadDim, spec_.head_dim));
  if (value_length != spec_.head_dim) {
    return unsupported(
        "keys have {} elements and values {} ('{}'); ridge reads models where the "
        "two are equal",
        spec_.head_dim, value_length, key("attention.value_length"));
  }
  for (const char* suffix : {"attention.key_length_swa", "attention.value_length_swa"}) {
    RIDGE_TRY(const int64_t local, integer_or(suffix, 1, kMaxHeadDim, spec_.head_dim));
    if (local != spec_.head_dim) {
      return unsupported("metadata key '{}' is {}, but other layers have {}", key(suffix), local,
                         spec_.head_dim);
    }
  }
  if (spec_.head_dim > kMaxHeadDim || spec_.head_dim % 2 != 0 ||
      spec_.head_dim * spec_.n_heads > kMaxWidth) {
    return bad(
        "a head has {} elements and there are {} heads, expected an even number, at most "
        "{}, and at most {} together",
        spec_.head_dim, spec_.n_heads, kMaxHeadDim, kMaxWidth);
  }
  return {};
}

// The tokens of the tokenizer and the rows of the embedding must be the same number.
Status SpecReader::read_vocabulary() {
  const GgufTensor* embedding = file_.find("token_embd.weight");
  if (embedding == nullptr) return bad("tensor 'token_embd.weight' is missing");
  if (embedding->view.cols != spec_.d_model || embedding->view.rows > kMaxVocabulary) {
    return bad(
        "tensor 'token_embd.weight' is {} x {}, expected rows of {} (one a token, at most "
        "{})",
        embedding->view.rows, embedding->view.cols, spec_.d_model, kMaxVocabulary);
  }
  spec_.vocab_size = embedding->view.rows;
  const auto tokens = file_.metadata().find("tokenizer.ggml.tokens");
  if (tokens != file_.metadata().end()) {
    const auto* list = std::get_if<std::vector<std::string>>(&tokens->second);
    if (list == nullptr) {
      return bad("metadata key 'tokenizer.ggml.tokens' is not an array of strings");
    }
    if (static_cast<int64_t>(list->size()) != spec_.vocab_size) {
      return bad("the tokenizer has {} tokens, but tensor 'token_embd.weight' has {} rows",
                 list->size(), spec_.vocab_size);
    }
  }
  RIDGE_TRY(const int64_t claimed, integer_or("vocab_size", 1, kMaxVocabulary, spec_.vocab_size));
  if (claimed != spec_.vocab_size) {
    return bad("metadata key '{}' is {}, but tensor 'token_embd.weight' has {} rows",
               key("vocab_size"), claimed, spec_.vocab_size);
  }
  return {};
}

Status SpecReader::read_rope() {
  constexpr double kMaxBase = 1e12;  // real models: 1e4 to 1e7
  RopeSpec& rope = spec_.rope;
  // The converter reorders llama's q and k so that pairs are neighbours; the others it leaves as
  // Hugging Face has them.
  rope.pairing =
      spec_.architecture == Architecture::llama ? RopePairing::adjacent : RopePairing::half_split;
  RIDGE_TRY(rope.dims, integer_or("rope.dimension_count", 1, spec_.head_dim, spec_.head_dim));
  if (rope.dims % 2 != 0) {
    return bad("metadata key '{}' is {}, expected an even number: RoPE turns pairs",
               key("rope.dimension_count"), rope.dims);
  }
  rope.base = kLlamaRopeBase;
  if (spec_.architecture != Architecture::llama || has("rope.freq_base")) {
    RIDGE_TRY(rope.base, positive("rope.freq_base", kMaxBase));
  }
  RIDGE_RETURN_IF_ERROR(read_rope_scaling());
  RIDGE_RETURN_IF_ERROR(read_rope_freqs());
  spec_.rope_local = rope;
  if (spec_.architecture != Architecture::gemma3) return {};
  // Gemma 3 stretches only the layers that see everything (rope_scaling of the published configs).
  spec_.rope_local.scaling = RopeScaling::none;
  spec_.rope_local.factor = 1;
  spec_.rope_local.base = kGemma3LocalRopeBase;
  for (const char* suffix : {"rope.local.freq_base", "rope.freq_base_swa"}) {
    if (!has(suffix)) continue;
    RIDGE_TRY(spec_.rope_local.base, positive(suffix, kMaxBase));
  }
  return {};
}

Status SpecReader::read_rope_scaling() {
  constexpr double kMaxFactor = 1e6;
  // Without a type, a factor means linear scaling, as llama.cpp reads it.
  std::string type = "linear";
  if (has("rope.scaling.type")) {
    RIDGE_TRY(type, file_.string(key("rope.scaling.type")));
    if (type != "none" && type != "linear") {
      return unsupported(
          "RoPE scaling {} ('{}') is not supported; supported are none, linear and "
          "llama3 (tensor 'rope_freqs.weight')",
          quoted(type), key("rope.scaling.type"));
    }
    if (type == "linear" && !has("rope.scaling.factor")) {
      return bad("RoPE scaling is linear, but metadata key '{}' is missing",
                 key("rope.scaling.factor"));
    }
  }
  double factor = 1;
  for (const char* suffix : {"rope.scale_linear", "rope.scaling.factor"}) {
    if (!has(suffix)) continue;
    RIDGE_TRY(factor, positive(suffix, kMaxFactor));
  }
  if (type == "none" || factor == 1) return {};
  spec_.rope.scaling = RopeScaling::linear;
  spec_.rope.factor = factor;
  return {};
}

Status SpecReader::read_rope_freqs() {
  const GgufTensor* freqs = file_.find("rope_freqs.weight");
  if (freqs == nullptr) return {};
  if (spec_.architecture != Architecture::llama || spec_.rope.scaling != RopeScaling::none) {
    return unsupported(
        "tensor 'rope_freqs.weight' is supported only for llama without RoPE "
        "scaling of another kind");
  }
  const int64_t pairs = spec_.rope.dims / 2;
  if (freqs->view.dtype != DType::f32 || freqs->view.rows != 1 || freqs->view.cols != pairs) {
    return bad("tensor 'rope_freqs.weight' is {} x {} {}, expected 1 x {} F32", freqs->view.rows,
               freqs->view.cols, name_of(freqs->view.dtype), pairs);
  }
  std::vector<float> divisors(static_cast<size_t>(pairs));
  decode(DType::f32, freqs->view.data, pairs, divisors.data());
  for (float divisor : divisors) {
    if (!std::isfinite(divisor) || divisor <= 0) {
      return bad("tensor 'rope_freqs.weight' holds {}, expected finite numbers above 0", divisor);
    }
  }
  spec_.rope.scaling = RopeScaling::llama3;
  spec_.has_rope_freqs = true;
  return {};
}

Status SpecReader::read_windows() {
  if (spec_.architecture != Architecture::gemma3) {
    RIDGE_TRY(const int64_t window, integer_or("attention.sliding_window", 0, kMaxContext, 0));
    if (window > 0 && window < spec_.context_length) {
      return unsupported("metadata key '{}' is {}: sliding windows are supported for gemma3 only",
                         key("attention.sliding_window"), window);
    }
    return {};
  }
  RIDGE_TRY(spec_.sliding_window, integer("attention.sliding_window", 1, kMaxContext));
  return read_window_pattern();
}

Status SpecReader::read_window_pattern() {
  constexpr const char* kPattern = "attention.sliding_window_pattern";
  const auto layers = static_cast<size_t>(spec_.n_layers);
  const auto found = file_.metadata().find(key(kPattern));
  if (found != file_.metadata().end()) {
    if (const auto* flags = std::get_if<std::vector<bool>>(&found->second)) {
      if (flags->size() != layers) {
        return bad("metadata key '{}' has {} elements, expected one for each of {} layers",
                   key(kPattern), flags->size(), layers);
      }
      spec_.windowed = *flags;
      return {};
    }
  }
  RIDGE_TRY(const int64_t period, integer_or(kPattern, 1, kMaxLayers, kGemma3WindowPattern));
  spec_.windowed.resize(layers);
  for (int64_t i = 0; i < spec_.n_layers; ++i) {
    spec_.windowed[static_cast<size_t>(i)] = (i + 1) % period != 0;
  }
  return {};
}

Result<ModelSpec> SpecReader::read() {
  RIDGE_RETURN_IF_ERROR(read_architecture());
  RIDGE_RETURN_IF_ERROR(refuse_unsupported());
  RIDGE_RETURN_IF_ERROR(read_widths());
  RIDGE_RETURN_IF_ERROR(read_heads());
  RIDGE_RETURN_IF_ERROR(read_head_dim());
  RIDGE_RETURN_IF_ERROR(read_vocabulary());
  RIDGE_RETURN_IF_ERROR(read_rope());
  RIDGE_RETURN_IF_ERROR(read_windows());
  spec_.tied_embedding = file_.find("output.weight") == nullptr;
  spec_.qkv_bias = spec_.architecture == Architecture::qwen2;
  for (const GgufTensor& tensor : file_.tensors()) {
    spec_.dtype_of_weight.emplace(tensor.name, tensor.view.dtype);
  }
  return std::move(spec_);
}

}  // namespace

Result<ModelSpec> spec_from_gguf(const GgufFile& file) { return SpecReader(file).read(); }

}  // namespace ridge
