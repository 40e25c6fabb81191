// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "text/vocab_tokenizer.h"

namespace ridge {
namespace {

// Tokens that end a turn or a text, by the name they have in the vocabularies that use them.
constexpr std::string_view kTurnEnders[] = {
    "<|im_end|>",             // ChatML: SmolLM2, Qwen
    "<|endoftext|>",          // GPT-2, Qwen, SmolLM2
    "<|eot_id|>",             // Llama 3
    "<|eom_id|>",             // Llama 3.1, tool calls
    "<|end_of_text|>",        // Llama 3, Granite
    "<|eot|>",                // Llama 4
    "<end_of_turn>",          // Gemma
    "<|end|>",                // Phi-3
    "<|return|>",             // gpt-oss
    "<|END_OF_TURN_TOKEN|>",  // Command R
    "<\xef\xbd\x9c"
    "end\xe2\x96\x81of\xe2\x96\x81sentence\xef\xbd\x9c>",  // DeepSeek
    "<end_of_utterance>",                                  // SmolVLM
    "<EOT>",                                               // infill models
};

Error bad(std::string message) { return {ErrorCode::invalid_input, std::move(message)}; }

Status check_id(const char* name, TokenId id, size_t vocab) {
  if (id >= -1 && (id < 0 || static_cast<size_t>(id) < vocab)) return {};
  return bad(fmt::format("the tokenizer's {} token has id {}, but its vocabulary has {} tokens",
                         name, id, vocab));
}

Status check_spec(const TokenizerSpec& spec) {
  const size_t vocab = spec.tokens.size();
  if (vocab == 0) return bad("the tokenizer has an empty vocabulary (tokenizer.ggml.tokens)");
  if (vocab > static_cast<size_t>(std::numeric_limits<TokenId>::max())) {
    return bad(fmt::format("the tokenizer has {} tokens; ids have 31 bits", vocab));
  }
  if (!spec.kinds.empty() && spec.kinds.size() != vocab) {
    return bad(fmt::format("the tokenizer has {} tokens and {} token types; expected as many",
                           vocab, spec.kinds.size()));
  }
  for (size_t id = 0; id < spec.kinds.size(); ++id) {
    const int kind = static_cast<int>(spec.kinds[id]);
    if (kind < 1 || kind > 6) {
      return bad(fmt::format("token {} has type {}; expected 1 to 6", id, kind));
    }
  }
  RIDGE_RETURN_IF_ERROR(check_id("BOS", spec.bos, vocab));
  RIDGE_RETURN_IF_ERROR(check_id("EOS", spec.eos, vocab));
  RIDGE_RETURN_IF_ERROR(check_id("EOT", spec.eot, vocab));
  RIDGE_RETURN_IF_ERROR(check_id("unknown", spec.unknown, vocab));
  if (spec.add_bos && spec.bos < 0) {
    return bad("the tokenizer asks for BOS before a text, but names no BOS token");
  }
  if (spec.add_eos && spec.eos < 0) {
    return bad("the tokenizer asks for EOS after a text, but names no EOS token");
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<const Tokenizer>> Tokenizer::create(TokenizerSpec spec) {
  RIDGE_RETURN_IF_ERROR(check_spec(spec));
  return spec.model == TokenizerModel::bpe ? create_bpe(std::move(spec))
                                           : create_spm(std::move(spec));
}

std::string Tokenizer::decode(const std::vector<TokenId>& ids, bool render_special) const {
  std::string text;
  bool drop_space = spec_.model == TokenizerModel::spm && spec_.add_space_prefix;
  for (TokenId id : ids) {
    std::string_view part = piece(id, render_special);
    if (drop_space && !is_control(id)) {
      // A user-defined token is matched in the raw text: its spaces are the text's own.
      const bool own = is_kind(id, TokenKind::user_defined);
      if (!own && part.starts_with(' ')) part.remove_prefix(1);
      drop_space = false;
    }
    text += part;
  }
  return text;
}

bool Tokenizer::is_kind(TokenId id, TokenKind kind) const {
  return id >= 0 && static_cast<size_t>(id) < spec_.kinds.size() && spec_.kinds[id] == kind;
}

bool Tokenizer::is_control(TokenId id) const { return is_kind(id, TokenKind::control); }

bool Tokenizer::ends_generation(TokenId id) const {
  if (id < 0 || id >= vocab_size()) return false;
  if (id == spec_.eos || id == spec_.eot) return true;
  return is_control(id) && std::find(std::begin(kTurnEnders), std::end(kTurnEnders),
                                     spec_.tokens[id]) != std::end(kTurnEnders);
}

}  // namespace ridge
