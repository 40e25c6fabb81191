// SPDX-License-Identifier: Apache-2.0
#include "engine/model.h"

#include "engine/tokenizer_from_gguf.h"
#include "model/spec_from_gguf.h"

namespace ridge {

Result<ModelFacts> model_facts(const GgufFile& file, std::optional<DType> kv_dtype) {
  RIDGE_TRY(ModelSpec spec, spec_from_gguf(file));
  spec.kv_dtype = kv_dtype.value_or(DType::f16);
  RIDGE_TRY(Program program, lower(spec));
  return ModelFacts{std::move(spec), std::move(program)};
}

Result<std::unique_ptr<const Model>> Model::load(const std::string& path,
                                                 const ModelOptions& options, ThreadPool& pool,
                                                 const LoadProgress& progress) {
  RIDGE_TRY(const GgufFile file, GgufFile::open(path));
  return load(file, options, pool, progress);
}

Result<std::unique_ptr<const Model>> Model::load(const GgufFile& file, const ModelOptions& options,
                                                 ThreadPool& pool, const LoadProgress& progress) {
  const DType kv_dtype = options.kv_dtype.value_or(options.exact ? DType::f32 : DType::f16);
  RIDGE_TRY(ModelFacts facts, model_facts(file, kv_dtype));
  auto model = std::unique_ptr<Model>(new Model);
  model->path_ = file.path();
  model->exact_ = options.exact;
  model->spec_ = std::move(facts.spec);
  model->program_ = std::move(facts.program);
  model->fused_ = fuse(model->program_);
  RIDGE_TRY(model->tokenizer_, tokenizer_from_gguf(file, options.pre_override));
  if (model->tokenizer_->vocab_size() != model->spec_.vocab_size)
    return Error{ErrorCode::invalid_input, file.path() + ": the tokenizer has " +
                                               std::to_string(model->tokenizer_->vocab_size()) +
                                               " tokens, the embedding table " +
                                               std::to_string(model->spec_.vocab_size) +
                                               " rows; they must agree"};
  if (file.has("tokenizer.chat_template")) {
    RIDGE_TRY(model->chat_template_, file.string("tokenizer.chat_template"));
  }
  RIDGE_TRY(model->weights_, WeightStore::load(file, model->program_, pool, progress));
  return std::unique_ptr<const Model>(std::move(model));
}

}  // namespace ridge
