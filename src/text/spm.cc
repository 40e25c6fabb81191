// SentencePiece BPE as GGUF files of Llama 2, Gemma and their kin carry it: of all adjacent pairs
// whose joined text is a token, the one with the highest score merges first. Here a space stands
// for SPM's U+2581, in pieces and in text alike. A character outside the vocabulary becomes its
// byte tokens, or else the unknown token. Tokens of type "unused" never come out of text.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "text/utf8.h"
#include "text/utf8_stream.h"
#include "text/vocab_tokenizer.h"

namespace ridge {
namespace {

constexpr std::string_view kSpaceMark = "\xe2\x96\x81";  // U+2581

void append_with_spaces(std::string_view text, std::string& out) {
  for (size_t at = 0; at < text.size();) {
    const size_t mark = text.find(kSpaceMark, at);
    out.append(text, at, std::min(mark, text.size()) - at);
    if (mark == text.npos) return;
    out.push_back(' ');
    at = mark + kSpaceMark.size();
  }
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

// The byte of "<0xHH>", or -1.
int byte_of(std::string_view text) {
  if (text.size() != 6 || !text.starts_with("<0x") || text[5] != '>') return -1;
  const int high = hex_digit(text[3]), low = hex_digit(text[4]);
  return high < 0 || low < 0 ? -1 : high * 16 + low;
}

// Orders like the scores, backwards: the highest score is the lowest number.
uint32_t priority_of(float score) {
  const uint32_t bits = std::bit_cast<uint32_t>(score + 0.0f);  // -0 becomes +0
  return bits >> 31 ? bits : ~(bits | 0x80000000u);
}

Error bad(std::string message) { return {ErrorCode::invalid_input, std::move(message)}; }

class SpmTokenizer final : public VocabTokenizer {
 public:
  explicit SpmTokenizer(TokenizerSpec spec) : VocabTokenizer(std::move(spec)) {}

  Status build() {
    RIDGE_RETURN_IF_ERROR(check_scores());
    RIDGE_RETURN_IF_ERROR(add_pieces());
    bool any_missing = false;
    for (TokenId id : byte_ids_) any_missing |= id < 0;
    byte_fallback_ = !any_missing;
    if (any_missing && spec_.unknown < 0) {
      return bad(
          "the SPM tokenizer has neither all 256 byte tokens <0x00> to <0xFF> nor an "
          "unknown token: it has no way to write a character outside its vocabulary");
    }
    return add_specials();
  }

 protected:
  void encode_plain(std::string_view text, bool opens, EncodeScratch& scratch,
                    std::vector<TokenId>& out) const override {
    if (text.empty()) return;
    const bool prefix = opens && spec_.add_space_prefix;
    if (prefix || text.find(kSpaceMark) != text.npos) {
      scratch.normal.clear();
      if (prefix) scratch.normal.push_back(' ');
      append_with_spaces(text, scratch.normal);
      text = scratch.normal;
    }
    for (size_t begin = 0; begin < text.size();) {
      size_t end = begin + 1;
      while (end < text.size() && !may_cut(text, end)) ++end;
      const std::string_view word = text.substr(begin, end - begin);
      begin = end;
      if (scratch.cache.recall(word, out)) continue;
      const size_t before = out.size();
      encode_word(word, scratch.symbols, out);
      scratch.cache.remember(word, std::span(out).subspan(before));
    }
  }

 private:
  Status check_scores() {
    if (spec_.scores.size() != spec_.tokens.size()) {
      return bad(fmt::format("the SPM tokenizer has {} tokens and {} scores; expected as many",
                             spec_.tokens.size(), spec_.scores.size()));
    }
    for (size_t id = 0; id < spec_.scores.size(); ++id) {
      if (std::isnan(spec_.scores[id])) {
        return bad(fmt::format("the score of token {} is not a number", id));
      }
    }
    return {};
  }

  Status add_pieces() {
    byte_ids_.fill(-1);
    std::string piece;
    for (TokenId id = 0; id < vocab_size(); ++id) {
      const std::string& text = spec_.tokens[id];
      const TokenKind what = kind(id);
      piece.clear();
      if (what == TokenKind::byte) {
        const int byte = byte_of(text);
        if (byte < 0) {
          return bad(
              fmt::format("token {} is a byte token but its text is '{}'; expected <0x00> "
                          "to <0xFF>",
                          id, to_valid_utf8(std::string_view(text).substr(0, 16))));
        }
        piece.push_back(static_cast<char>(byte));
        if (byte_ids_[byte] < 0) byte_ids_[byte] = id;
        pieces_.add(piece, false);
        continue;
      }
      append_with_spaces(text, piece);
      const bool findable = what == TokenKind::normal;  // user-defined ones are matched before
      if (findable) note_inner_spaces(piece);
      pieces_.add(piece, findable);
    }
    pieces_.build_index();
    return {};
  }

  // Text may be cut before a space if no token has that space after the byte that precedes it:
  // nothing merges across the cut. It makes words short, and their ids can be remembered.
  bool may_cut(std::string_view text, size_t at) const {
    return text[at] == ' ' && text[at - 1] != ' ' && !inner_[static_cast<uint8_t>(text[at - 1])];
  }
  void note_inner_spaces(std::string_view piece) {
    for (size_t at = 1; at < piece.size(); ++at) {
      if (piece[at] == ' ') inner_[static_cast<uint8_t>(piece[at - 1])] = true;
    }
  }

  void encode_word(std::string_view word, std::vector<Symbol>& symbols,
                   std::vector<TokenId>& out) const {
    symbols.clear();
    for (size_t at = 0; at < word.size();) {
      const size_t length = utf8_step(word, at).length;
      const TokenId id = pieces_.find(word.substr(at, length));
      symbols.push_back({static_cast<uint32_t>(at), static_cast<uint32_t>(length), id});
      at += length;
    }
    merge_symbols(symbols, [&](const Symbol& left, const Symbol& right) {
      const TokenId id = pieces_.find(word.substr(left.begin, left.length + right.length));
      return MergeChoice{id < 0 ? 0 : priority_of(spec_.scores[id]), id};
    });
    bool after_unknown = false;
    for (const Symbol& symbol : symbols) {
      const bool unknown = symbol.id < 0 && !byte_fallback_;
      if (symbol.id >= 0) {
        out.push_back(symbol.id);
      } else if (byte_fallback_) {
        for (char c : word.substr(symbol.begin, symbol.length)) {
          out.push_back(byte_ids_[static_cast<uint8_t>(c)]);
        }
      } else if (!after_unknown) {  // a run of unknown characters is one token
        out.push_back(spec_.unknown);
      }
      after_unknown = unknown;
    }
  }

  std::array<TokenId, 256> byte_ids_ = {};
  std::array<bool, 256> inner_ = {};  // bytes that some token has before a space
  bool byte_fallback_ = false;
};

}  // namespace

Result<std::unique_ptr<const Tokenizer>> create_spm(TokenizerSpec spec) {
  auto out = std::make_unique<SpmTokenizer>(std::move(spec));
  RIDGE_RETURN_IF_ERROR(out->build());
  return std::unique_ptr<const Tokenizer>(std::move(out));
}

}  // namespace ridge
