// One sequence and the generation loop that run and chat share: prefill in chunks, then one step
// per token, until a limit, a stop string, an end-of-turn token or a cancellation. The KV cache
// stays between calls: only tokens that are not in it are prefilled.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "engine/executor.h"
#include "engine/model.h"
#include "engine/sampler.h"

namespace ridge {

enum class FinishReason { stop, length, cancelled };
const char* name_of(FinishReason reason);  // "stop" and "length" as the OpenAI API says

struct GenerateOptions {
  int64_t max_tokens = -1;  // -1: until the context is full
  SamplingParams sampling;
  std::vector<std::string> stops;
  bool ignore_eos = false;
  bool hash_logits = false;  // costs time outside kernels
};

struct Generation {
  std::string text;             // valid UTF-8, without the stop string
  std::vector<TokenId> tokens;  // generated, the ending token included
  FinishReason reason = FinishReason::length;
  uint64_t logits_hash = 0;  // of every row that was sampled from, if asked for
  Seconds ttft;              // from the call to the first token: prefill and one sampling
};

struct SessionOptions {
  Isa isa = Isa::plain;
  int64_t context = 0;  // tokens
  int prefill_threads = 1;
  int decode_threads = 1;
  int64_t prefill_chunk = 512;  // rows of one prefill step at most
  int64_t max_logit_rows = 1;   // of one evaluate()
};

Executor::Options executor_options(const Model& model, const SessionOptions& options);

class Session {
 public:
  // Keeps references to all but the options.
  Session(const Model& model, ThreadPool& pool, Book& book, const SessionOptions& options);

  // Appends `prompt` to the sequence and generates. `on_text` gets complete UTF-8 as it becomes
  // certain. `cancelled` may be set from a signal handler. Errors: an empty sequence, a prompt that
  // does not fit into the context, logits that are not finite.
  Result<Generation> generate(std::span<const TokenId> prompt, const GenerateOptions& options,
                              const std::function<void(const std::string&)>& on_text,
                              const std::atomic<bool>& cancelled);

  // Error, if `n` more tokens would leave nothing to do or not fit.
  Status check_room(int64_t n) const;
  // Error, if a text of so many bytes cannot fit, however it is tokenised: known before it is.
  Status check_bytes(size_t text_bytes) const;
  // Forgets all tokens from `length` on.
  void truncate(int64_t length);
  // Tokens of the sequence: those in the cache, and at most one that is not fed yet.
  const std::vector<TokenId>& tokens() const { return tokens_; }
  int64_t cached() const { return cached_; }
  int64_t context() const { return options_.context; }
  int64_t kv_bytes() const { return kv_.bytes(); }

  // Feeds tokens and returns the logits of the last `logit_rows` of them (rows, vocab); for
  // evaluation. At most prefill_chunk tokens.
  Result<const float*> evaluate(std::span<const TokenId> tokens, int64_t logit_rows);

 private:
  // Feeds tokens_[cached_ ...) in chunks; returns the last row's logits, or null when cancelled.
  Result<float*> prefill(const std::atomic<bool>& cancelled, Seconds* step_begin);
  Result<float*> step(int64_t n, int64_t logit_rows, int threads);
  // Books the step that began at *begin, and begins the next one.
  void end_step(Phase phase, Seconds* begin);

  const Model& model_;
  Book& book_;
  SessionOptions options_;
  KvStore kv_;
  PageTable pages_;
  Executor executor_;
  Batch batch_;
  std::vector<TokenId> tokens_;
  int64_t cached_ = 0;
};

}  // namespace ridge
