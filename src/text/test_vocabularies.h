// Small hand-made vocabularies for the tests of this room.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "text/tokenizer.h"

namespace ridge::testing_text {

// The character of GPT-2's alphabet for a byte, in UTF-8.
inline std::string alphabet(int byte) {
  auto itself = [](int b) { return (b >= 33 && b <= 126) || (b >= 161 && b <= 255 && b != 173); };
  int code = byte;
  if (!itself(byte)) {
    code = 256;
    for (int b = 0; b < byte; ++b) code += itself(b) ? 0 : 1;
  }
  if (code < 0x80) return {static_cast<char>(code)};
  return {static_cast<char>(0xc0 | code >> 6), static_cast<char>(0x80 | (code & 0x3f))};
}

inline std::string in_alphabet(std::string_view bytes) {
  std::string out;
  for (char c : bytes) out += alphabet(static_cast<unsigned char>(c));
  return out;
}

// Token id b is byte b; then the words that the merges make, then what the caller adds.
inline TokenizerSpec byte_bpe(const std::vector<std::pair<std::string, std::string>>& merges = {}) {
  TokenizerSpec spec;
  spec.model = TokenizerModel::bpe;
  spec.pre = "gpt-2";
  for (int byte = 0; byte < 256; ++byte) spec.tokens.push_back(alphabet(byte));
  for (const auto& [left, right] : merges) {
    spec.merges.push_back(in_alphabet(left) + " " + in_alphabet(right));
    spec.tokens.push_back(in_alphabet(left + right));
  }
  spec.kinds.assign(spec.tokens.size(), TokenKind::normal);
  return spec;
}

inline TokenId add_token(TokenizerSpec& spec, const std::string& text, TokenKind kind,
                         float score = 0) {
  spec.tokens.push_back(text);
  spec.kinds.push_back(kind);
  if (spec.model == TokenizerModel::spm) spec.scores.push_back(score);
  return static_cast<TokenId>(spec.tokens.size()) - 1;
}

// Token id b is the byte token of b; 256 is <unk>, 257 <s>, 258 </s>.
inline TokenizerSpec byte_spm() {
  TokenizerSpec spec;
  spec.model = TokenizerModel::spm;
  for (int byte = 0; byte < 256; ++byte) {
    const char* digits = "0123456789ABCDEF";
    const std::string text = {'<', '0', 'x', digits[byte >> 4], digits[byte & 15], '>'};
    add_token(spec, text, TokenKind::byte);
  }
  spec.unknown = add_token(spec, "<unk>", TokenKind::unknown);
  spec.bos = add_token(spec, "<s>", TokenKind::control);
  spec.eos = add_token(spec, "</s>", TokenKind::control);
  return spec;
}

}  // namespace ridge::testing_text
