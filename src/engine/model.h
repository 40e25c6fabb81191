// A model ready to run: what it is, its Program, its weights repacked, its tokenizer.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/thread_pool.h"
#include "engine/weight_store.h"
#include "program/lower.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace ridge {

struct ModelOptions {
  std::string pre_override;  // name of the pre-tokeniser, if the file's own is missing or unknown
  std::optional<DType> kv_dtype;  // f16 or f32; by default f16, and f32 in exact mode
  bool exact = false;
};

class Model {
 public:
  // Errors: those of the spec, the tokenizer and the weights. Keeps nothing of `file`.
  static Result<std::unique_ptr<const Model>> load(const GgufFile& file,
                                                   const ModelOptions& options, ThreadPool& pool,
                                                   const LoadProgress& progress);
  // The same from a path, with the reader's errors too.
  static Result<std::unique_ptr<const Model>> load(const std::string& path,
                                                   const ModelOptions& options, ThreadPool& pool,
                                                   const LoadProgress& progress);

  const std::string& path() const { return path_; }
  const ModelSpec& spec() const { return spec_; }
  const Program& program() const { return program_; }  // as lowered
  const Program& fused() const { return fused_; }      // as run
  const WeightStore& weights() const { return weights_; }
  const Tokenizer& tokenizer() const { return *tokenizer_; }
  // Empty if the file has none.
  const std::string& chat_template_source() const { return chat_template_; }
  bool exact() const { return exact_; }

 private:
  Model() = default;
  std::string path_;
  ModelSpec spec_;
  Program program_, fused_;
  WeightStore weights_;
  std::unique_ptr<const Tokenizer> tokenizer_;
  std::string chat_template_;
  bool exact_ = false;
};

// What can be said of a model without reading its weights.
struct ModelFacts {
  ModelSpec spec;
  Program program;
};
Result<ModelFacts> model_facts(const GgufFile& file, std::optional<DType> kv_dtype = {});

}  // namespace ridge
