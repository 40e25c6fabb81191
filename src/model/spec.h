// What a model is, without its weights: enough to lower it to a Program, to size its KV cache and
// to price it. Every width is a member of its own, because none follows from another in all real
// models (n_heads * head_dim is not d_model in Gemma, Mistral Nemo, Qwen3).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/dtype.h"

namespace ridge {

enum class Architecture { llama, qwen2, qwen3, gemma3 };
std::string_view name_of(Architecture architecture);

// Which two elements of a head RoPE turns together.
enum class RopePairing {
  adjacent,    // (0,1) (2,3) ...: how GGUF stores llama's q and k (the converter permutes them)
  half_split,  // (0,d/2) (1,d/2+1) ...: qwen2, qwen3, gemma3
};

enum class RopeScaling { none, linear, llama3 };

struct RopeSpec {
  RopePairing pairing = RopePairing::adjacent;
  int64_t dims = 0;  // rotated elements of a head; the rest pass through
  double base = 10000;
  RopeScaling scaling = RopeScaling::none;
  double factor = 1;  // linear: positions are divided by it
  bool operator==(const RopeSpec&) const = default;
  // llama3: the file carries the divisors themselves (tensor rope_freqs.weight).
};

struct ModelSpec {
  std::string name;
  Architecture architecture = Architecture::llama;
  int64_t n_layers = 0, d_model = 0, n_heads = 0, n_kv_heads = 0, head_dim = 0, d_ff = 0;
  int64_t vocab_size = 0, context_length = 0;
  double norm_epsilon = 1e-5;
  bool tied_embedding = false;  // the head is the embedding table
  bool qkv_bias = false;        // qwen2
  RopeSpec rope;                // of full-attention layers
  RopeSpec rope_local;          // of sliding-window layers
  int64_t sliding_window = 0;   // keys a windowed query sees, itself included; 0: no such layer
  std::vector<bool> windowed;   // (n_layers) which layers are
  bool has_rope_freqs = false;  // the file has rope_freqs.weight: per-pair divisors of the angle

  // The dtype of each weight, as the file lists them. A name that is missing takes the default.
  std::map<std::string, DType> dtype_of_weight;
  DType default_weight_dtype = DType::bf16;
  DType default_vector_dtype = DType::f32;  // of norms and biases
  DType kv_dtype = DType::f16;

  bool is_windowed(int64_t layer) const {
    return !windowed.empty() && windowed[static_cast<size_t>(layer)];
  }
};

}  // namespace ridge
