// SPDX-License-Identifier: Apache-2.0
#include "engine/tokenizer_from_gguf.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>

#include "model/quote.h"
#include "text/pretokenizer.h"
#include "text/utf8_stream.h"

namespace ridge {
namespace {

constexpr std::string_view kModel = "tokenizer.ggml.model";

Error bad(std::string_view key, std::string_view why) {
  return {ErrorCode::invalid_input, fmt::format("{} {}", key, why)};
}

// nullptr if the key is missing.
template <class T>
Result<const T*> array(const GgufFile& file, std::string_view key, std::string_view of) {
  const auto found = file.metadata().find(key);
  if (found == file.metadata().end()) return static_cast<const T*>(nullptr);
  const T* values = std::get_if<T>(&found->second);
  if (values == nullptr) return bad(key, fmt::format("is not an array of {}", of));
  return values;
}

template <class T>
Status read_strings(const GgufFile& file, std::string_view key, T& out) {
  RIDGE_TRY(const T* values, array<T>(file, key, "strings"));
  if (values != nullptr) out = *values;
  return {};
}

Status read_kinds(const GgufFile& file, std::vector<TokenKind>& out) {
  constexpr std::string_view kKey = "tokenizer.ggml.token_type";
  const auto found = file.metadata().find(kKey);
  if (found == file.metadata().end()) return {};
  auto take = [&](const auto& values) -> Status {
    out.reserve(values.size());
    for (size_t id = 0; id < values.size(); ++id) {
      if (values[id] < 1 || values[id] > 6) {
        return bad(kKey,
                   fmt::format("gives token {} the type {}; expected 1 to 6", id, values[id]));
      }
      out.push_back(static_cast<TokenKind>(values[id]));
    }
    return {};
  };
  if (const auto* values = std::get_if<std::vector<int64_t>>(&found->second)) return take(*values);
  if (const auto* values = std::get_if<std::vector<uint64_t>>(&found->second)) return take(*values);
  return bad(kKey, "is not an array of integers");
}

Status read_scores(const GgufFile& file, std::vector<float>& out) {
  RIDGE_TRY(const std::vector<double>* values,
            array<std::vector<double>>(file, "tokenizer.ggml.scores", "floats"));
  if (values != nullptr) out.assign(values->begin(), values->end());
  return {};
}

// Leaves `out` as it is if the key is missing.
Status read_id(const GgufFile& file, std::string_view key, TokenId& out) {
  if (!file.has(key)) return {};
  RIDGE_TRY(const int64_t id, file.integer(key));
  if (id == std::numeric_limits<uint32_t>::max()) {  // -1 in 32 bits: none
    out = -1;
    return {};
  }
  if (id < 0 || id > std::numeric_limits<TokenId>::max()) {
    return bad(key, fmt::format("is {}, which is no token id", id));
  }
  out = static_cast<TokenId>(id);
  return {};
}

Status read_flag(const GgufFile& file, std::string_view key, bool& out) {
  if (!file.has(key)) return {};
  RIDGE_TRY(out, file.boolean(key));
  return {};
}

Status check_override(std::string_view name) {
  const auto known = known_pre_tokenizers();
  if (std::find(known.begin(), known.end(), name) != known.end()) return {};
  return Error{ErrorCode::usage, fmt::format("--pre is {}, expected one of: {}", quoted(name),
                                             fmt::join(known, ", "))};
}

Status read_bpe(const GgufFile& file, std::string_view pre_override, TokenizerSpec& spec) {
  spec.model = TokenizerModel::bpe;
  RIDGE_RETURN_IF_ERROR(read_strings(file, "tokenizer.ggml.merges", spec.merges));
  if (!pre_override.empty()) {
    RIDGE_RETURN_IF_ERROR(check_override(pre_override));
    spec.pre = pre_override;
  } else if (file.has("tokenizer.ggml.pre")) {
    RIDGE_TRY(spec.pre, file.string("tokenizer.ggml.pre"));
  }
  spec.add_bos = Pretokenizer::adds_bos_by_default(spec.pre);
  return {};
}

// Files of this kind that say nothing follow Llama 2: its ids, a BOS, a space before the text.
Status read_spm(const GgufFile& file, std::string_view pre_override, TokenizerSpec& spec) {
  if (!pre_override.empty()) {
    return Error{ErrorCode::usage,
                 fmt::format("--pre is {}, but this model's tokenizer is SPM: it has no "
                             "pre-tokeniser to override",
                             quoted(pre_override))};
  }
  spec.model = TokenizerModel::spm;
  spec.unknown = 0;
  spec.bos = 1;
  spec.eos = 2;
  spec.add_bos = true;
  spec.add_space_prefix = true;
  RIDGE_RETURN_IF_ERROR(read_scores(file, spec.scores));
  RIDGE_RETURN_IF_ERROR(read_flag(file, "tokenizer.ggml.add_space_prefix", spec.add_space_prefix));
  bool remove_whitespace = false;
  constexpr std::string_view kRemove = "tokenizer.ggml.remove_extra_whitespaces";
  RIDGE_RETURN_IF_ERROR(read_flag(file, kRemove, remove_whitespace));
  if (remove_whitespace) {
    return Error{ErrorCode::not_supported,
                 fmt::format("{} is true, which this build lacks", kRemove)};
  }
  return {};
}

Result<TokenizerSpec> read_spec(const GgufFile& file, std::string_view pre_override) {
  TokenizerSpec spec;
  RIDGE_TRY(const std::string model, file.string(kModel));
  if (model == "gpt2") {
    RIDGE_RETURN_IF_ERROR(read_bpe(file, pre_override, spec));
  } else if (model == "llama") {
    RIDGE_RETURN_IF_ERROR(read_spm(file, pre_override, spec));
  } else {
    return Error{ErrorCode::not_supported,
                 fmt::format("{} is '{}'; this build has 'gpt2' (BPE) and 'llama' (SPM)", kModel,
                             to_valid_utf8(std::string_view(model).substr(0, 64)))};
  }
  RIDGE_RETURN_IF_ERROR(read_strings(file, "tokenizer.ggml.tokens", spec.tokens));
  RIDGE_RETURN_IF_ERROR(read_kinds(file, spec.kinds));
  RIDGE_RETURN_IF_ERROR(read_id(file, "tokenizer.ggml.bos_token_id", spec.bos));
  RIDGE_RETURN_IF_ERROR(read_id(file, "tokenizer.ggml.eos_token_id", spec.eos));
  RIDGE_RETURN_IF_ERROR(read_id(file, "tokenizer.ggml.eot_token_id", spec.eot));
  RIDGE_RETURN_IF_ERROR(read_id(file, "tokenizer.ggml.unknown_token_id", spec.unknown));
  RIDGE_RETURN_IF_ERROR(read_flag(file, "tokenizer.ggml.add_bos_token", spec.add_bos));
  RIDGE_RETURN_IF_ERROR(read_flag(file, "tokenizer.ggml.add_eos_token", spec.add_eos));
  return spec;
}

}  // namespace

Result<std::unique_ptr<const Tokenizer>> tokenizer_from_gguf(const GgufFile& file,
                                                             std::string_view pre_override) {
  auto in_file = [&](const Error& error) {
    if (error.code == ErrorCode::usage) return error;  // a flag is wrong, not the file
    return Error{error.code, fmt::format("{}: {}", file.path(), error.message)};
  };
  Result<TokenizerSpec> spec = read_spec(file, pre_override);
  if (!spec) return in_file(spec.error());
  auto tokenizer = Tokenizer::create(*std::move(spec));
  if (!tokenizer) return in_file(tokenizer.error());
  return tokenizer;
}

}  // namespace ridge
