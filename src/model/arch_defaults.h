// Facts of the supported architectures that GGUF metadata may lack, each with its source. A key in
// the file wins over them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace ridge {

// RoPE base when {arch}.rope.freq_base is absent: the value of the original Llama, which the GGUF
// specification and llama.cpp take as the default. Only `llama` may lack the key.
inline constexpr double kLlamaRopeBase = 10000.0;

// google/gemma-3-* config.json, 2025-03: sliding_window_pattern 6 (every sixth layer sees
// everything, the five before it a window) and rope_local_base_freq 10000 (of the windowed layers).
inline constexpr int64_t kGemma3WindowPattern = 6;
inline constexpr double kGemma3LocalRopeBase = 10000.0;

// Limits of what a spec may claim. Far above real models (llama 405B: 126 layers, width 16384;
// Gemma 3: 262144 tokens), and low enough that layers * width * context * 8 bytes, the largest
// KV cache, stays below 2^63.
inline constexpr int64_t kMaxLayers = 1024;
// Of d_model, of d_ff and of all heads together: what any weight may have in columns. The matmul
// kernels need it this low; the widest published d_ff is 53248 (Llama 3.1 405B).
inline constexpr int64_t kMaxWidth = 1 << 18;
inline constexpr int64_t kMaxHeads = 1 << 12;
inline constexpr int64_t kMaxHeadDim = 1 << 12;
inline constexpr int64_t kMaxVocabulary = 1 << 24;
inline constexpr int64_t kMaxContext = 1 << 28;

}  // namespace ridge
