// Text to token ids and back, from a vocabulary given as plain arrays (the caller reads them from a
// GGUF or a tokenizer.json). Never guesses: a vocabulary it cannot tokenise exactly is refused.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace ridge {

using TokenId = int32_t;
struct ChatSpan;  // text/chat_template.h

// The numbers are those of tokenizer.ggml.token_type.
enum class TokenKind : uint8_t {
  normal = 1,
  unknown = 2,
  control = 3,
  user_defined = 4,
  unused = 5,
  byte = 6,
};

enum class TokenizerModel { bpe, spm };

// What a file says of its tokenizer, before any of it is trusted.
struct TokenizerSpec {
  TokenizerModel model = TokenizerModel::bpe;
  std::string pre;                  // bpe: name of the pre-tokeniser (tokenizer.ggml.pre)
  std::vector<std::string> tokens;  // bpe: byte-level alphabet; spm: U+2581 for a space
  std::vector<TokenKind> kinds;     // (tokens) or empty: all normal
  std::vector<float> scores;        // (tokens), spm only
  std::vector<std::string> merges;  // "left right", by rank, bpe only
  TokenId bos = -1, eos = -1, eot = -1, unknown = -1;  // -1: none
  bool add_bos = false, add_eos = false;
  bool add_space_prefix = false;  // spm
};

struct EncodeOptions {
  bool add_special = true;     // BOS / EOS as the model's own rules say; never a second BOS
  bool parse_special = false;  // text that spells a control token becomes that token
};

class Tokenizer {
 public:
  // Errors: arrays of differing length, ids past the end, merges that name missing tokens, an
  // unknown or missing pre-tokeniser (the sentence says how to override it).
  static Result<std::unique_ptr<const Tokenizer>> create(TokenizerSpec spec);
  virtual ~Tokenizer() = default;

  virtual std::vector<TokenId> encode(std::string_view text, EncodeOptions options = {}) const = 0;

  // A rendered chat. Control tokens are recognised only inside the template's own spans; all else
  // is tokenised as the joined text, so that a border between spans is no border between tokens.
  virtual std::vector<TokenId> encode_spans(const std::vector<ChatSpan>& spans,
                                            bool add_special = true) const = 0;

  // The bytes a token stands for in running text: may be a fragment of a UTF-8 character. Control
  // tokens give "" unless `render_special`.
  virtual std::string_view piece(TokenId id, bool render_special = false) const = 0;

  // Pieces joined; what SPM does at the start of a text (a dropped leading space) included.
  std::string decode(const std::vector<TokenId>& ids, bool render_special = false) const;

  int64_t vocab_size() const { return static_cast<int64_t>(spec_.tokens.size()); }
  const TokenizerSpec& spec() const { return spec_; }
  bool is_control(TokenId id) const;
  // True for EOS, EOT and the other tokens that end a turn in this vocabulary (<|im_end|>,
  // <end_of_turn>, <|eot_id|>, <|endoftext|> ...).
  bool ends_generation(TokenId id) const;

 protected:
  explicit Tokenizer(TokenizerSpec spec) : spec_(std::move(spec)) {}
  TokenizerSpec spec_;

 private:
  bool is_kind(TokenId id, TokenKind kind) const;
};

// Names that TokenizerSpec::pre may have, for messages and help.
std::vector<std::string_view> known_pre_tokenizers();

}  // namespace ridge
