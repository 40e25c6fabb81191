// What tests of the engine build on: a loaded model with its pool and book, sessions on it, and a
// bare executor whose spec or Program may be spoilt first. Failures to load are CHECKed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/cpu_info.h"
#include "engine/session.h"

namespace ridge {

inline std::string tiny_path(const std::string& name) {
  return std::string(RIDGE_SOURCE_DIR) + "/tests/data/tiny/" + name;
}

// The kernel family that RIDGE_ISA names, or the best.
inline Isa test_isa() {
  const Result<Isa> isa = selected_isa();
  CHECK(isa.has_value());
  return *isa;
}

// Rates that nothing beats.
inline Device test_device() {
  return {.name = "test",
          .levels = {{"memory", Bytes(0), BytesPerSecond(1e15)}},
          .matmul_rate = FlopsPerSecond(1e18),
          .attention_rate = FlopsPerSecond(1e18),
          .wire_rate = BytesPerSecond(0),
          .matmul_arithmetic = "int8",
          .source = "invented"};
}

// More workers than the usual machine has: some tests run three.
inline constexpr int kTestThreads = 3;

struct TestModel {
  explicit TestModel(const std::string& path, const ModelOptions& options = {})
      : pool(kTestThreads) {
    auto loaded = Model::load(path, options, pool, {});
    if (!loaded) ADD_FAILURE() << loaded.error().message;
    CHECK(loaded.has_value());
    model = std::move(*loaded);
    book = std::make_unique<Book>(model->fused(), test_device());
  }

  std::unique_ptr<Session> session(SessionOptions options) {
    if (options.context == 0) options.context = model->spec().context_length;
    return std::make_unique<Session>(*model, pool, *book, options);
  }
  int64_t vocab() const { return model->spec().vocab_size; }

  ThreadPool pool;
  std::unique_ptr<const Model> model;
  std::unique_ptr<Book> book;
};

// Feeds `tokens` in steps of `chunk`; the logits of all of them (tokens, vocab). The session must
// allow `chunk` logit rows.
inline std::vector<float> all_logits(Session& session, std::span<const TokenId> tokens,
                                     size_t chunk, int64_t vocab) {
  std::vector<float> logits;
  for (size_t at = 0; at < tokens.size(); at += chunk) {
    const auto part = tokens.subspan(at, std::min(chunk, tokens.size() - at));
    const auto n = static_cast<int64_t>(part.size());
    const Result<const float*> rows = session.evaluate(part, n);
    CHECK(rows.has_value());
    logits.insert(logits.end(), *rows, *rows + n * vocab);
  }
  return logits;
}

inline GenerateOptions greedy_options(int64_t max_tokens) {
  GenerateOptions options{.max_tokens = max_tokens, .ignore_eos = true};
  options.sampling.temperature = 0;
  return options;
}

inline Result<Generation> generate(Session& session, std::span<const TokenId> prompt,
                                   const GenerateOptions& options) {
  const std::atomic<bool> never{false};
  return session.generate(prompt, options, {}, never);
}

// An executor without a session. `spoil_spec` acts before lowering, `spoil_program` after.
class BareModel {
 public:
  struct Options {
    bool exact = true;
    Isa isa = test_isa();
    std::function<void(ModelSpec&)> spoil_spec;
    std::function<void(Program&)> spoil_program;
  };
  static constexpr int64_t kContext = 128;

  BareModel(const std::string& path, const Options& options) : pool_(1) {
    const auto file = GgufFile::open(path);
    CHECK(file.has_value());
    auto facts = model_facts(*file, options.exact ? DType::f32 : DType::f16);
    CHECK(facts.has_value());
    spec_ = std::move(facts->spec);
    if (options.spoil_spec) options.spoil_spec(spec_);
    auto program = lower(spec_);
    CHECK(program.has_value());
    program_ = fuse(*program);
    if (options.spoil_program) options.spoil_program(program_);
    auto weights = WeightStore::load(*file, program_, pool_, {});
    CHECK(weights.has_value());
    weights_ = std::move(*weights);
    kv_ = std::make_unique<KvStore>(spec_, kv_pages_for(kContext));
    executor_ = std::make_unique<Executor>(program_, weights_, *kv_, pool_,
                                           Executor::Options{{.max_rows = kContext,
                                                              .max_sequences = 1,
                                                              .max_logit_rows = kContext,
                                                              .max_context = kContext},
                                                             options.isa,
                                                             options.exact});
  }

  // Logits (tokens, vocab) of one pass over a new sequence.
  std::vector<float> logits(std::span<const TokenId> tokens) {
    PageTable pages(kv_->pool(), kContext);
    const auto n = static_cast<int64_t>(tokens.size());
    CHECK(pages.grow_to(n));
    Batch batch(kContext, 1);
    batch.add(tokens.data(), n, 0, n, pages.data());
    const float* rows = executor_->step(batch, 1, nullptr);
    return {rows, rows + n * executor_->vocab_size()};
  }
  const ModelSpec& spec() const { return spec_; }

 private:
  ThreadPool pool_;
  ModelSpec spec_;
  Program program_;
  WeightStore weights_;
  std::unique_ptr<KvStore> kv_;
  std::unique_ptr<Executor> executor_;
};

}  // namespace ridge
