// Byte-level BPE. Bytes that are not part of valid UTF-8 are words of their own, one byte each, and
// the text on either side is tokenised as if it began or ended there. A byte that the vocabulary
// lacks is dropped, as Hugging Face does (SmolLM2 lacks 21, among them control characters).
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <array>

#include "text/pretokenizer.h"
#include "text/utf8.h"
#include "text/utf8_stream.h"
#include "text/vocab_tokenizer.h"

namespace ridge {
namespace {

// GPT-2's alphabet: the character that stands for each byte. Printable Latin-1 stands for itself,
// the other 68 bytes are U+0100 and up, in order.
std::array<int, 0x144> byte_of_character() {
  std::array<int, 0x144> out;
  out.fill(-1);
  int next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    const bool itself = (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte != 0xad);
    out[itself ? byte : next++] = byte;
  }
  return out;
}

// The bytes that a token's text spells in the alphabet; false if a character is not of it.
bool bytes_of(std::string_view text, std::string& bytes) {
  static const std::array<int, 0x144> kByteOf = byte_of_character();
  bytes.clear();
  for (size_t at = 0; at < text.size();) {
    const Utf8Step step = utf8_step(text, at);
    if (!step.valid || step.length > 2) return false;
    int character = static_cast<uint8_t>(text[at]);
    if (step.length == 2) {
      character = (character & 0x1f) << 6 | (static_cast<uint8_t>(text[at + 1]) & 0x3f);
    }
    if (character >= static_cast<int>(kByteOf.size()) || kByteOf[character] < 0) return false;
    bytes.push_back(static_cast<char>(kByteOf[character]));
    at += step.length;
  }
  return true;
}

Error bad_merge(size_t rank, std::string_view merge, std::string_view why) {
  return {ErrorCode::invalid_input, fmt::format("merge {} of the tokenizer, '{}', {}", rank,
                                                to_valid_utf8(merge.substr(0, 64)), why)};
}

class BpeTokenizer final : public VocabTokenizer {
 public:
  BpeTokenizer(TokenizerSpec spec, Pretokenizer pretokenizer)
      : VocabTokenizer(std::move(spec)), pretokenizer_(std::move(pretokenizer)) {}

  Status build() {
    add_pieces();
    RIDGE_RETURN_IF_ERROR(add_specials());
    return add_merges();
  }

 protected:
  void encode_plain(std::string_view text, bool, EncodeScratch& scratch,
                    std::vector<TokenId>& out) const override {
    size_t begin = 0, at = 0;
    while (at < text.size()) {
      const Utf8Step step = utf8_step(text, at);
      if (step.valid) {
        at += step.length;
        continue;
      }
      encode_valid(text.substr(begin, at - begin), scratch, out);
      for (size_t end = at + step.length; at < end; ++at) {
        const TokenId id = byte_ids_[static_cast<uint8_t>(text[at])];
        if (id >= 0) out.push_back(id);
      }
      begin = at;
    }
    encode_valid(text.substr(begin), scratch, out);
  }

 private:
  void add_pieces() {
    std::string bytes;
    for (TokenId id = 0; id < vocab_size(); ++id) {
      const TokenKind what = kind(id);
      const std::string& text = spec_.tokens[id];
      const bool plain = what != TokenKind::control && what != TokenKind::unknown;
      // Special tokens are stored as raw text; so is what the alphabet cannot spell.
      const bool raw = !plain || what == TokenKind::user_defined || !bytes_of(text, bytes);
      pieces_.add(raw ? text : bytes, plain && (!raw || what == TokenKind::user_defined));
    }
    pieces_.build_index();
    for (int byte = 0; byte < 256; ++byte) {
      const char one = static_cast<char>(byte);
      byte_ids_[byte] = pieces_.find({&one, 1});
    }
  }

  Status add_merges() {
    merges_.reserve(spec_.merges.size());
    std::string left, right;
    for (size_t rank = 0; rank < spec_.merges.size(); ++rank) {
      const std::string_view merge = spec_.merges[rank];
      const size_t space = merge.find(' ', 1);
      if (space == merge.npos || space + 1 == merge.size()) {
        return bad_merge(rank, merge, "is not two tokens with a space between them");
      }
      if (!bytes_of(merge.substr(0, space), left) || !bytes_of(merge.substr(space + 1), right)) {
        return bad_merge(rank, merge, "holds a character that is not of the byte-level alphabet");
      }
      const TokenId ids[] = {pieces_.find(left), pieces_.find(right), pieces_.find(left + right)};
      if (ids[0] < 0 || ids[1] < 0 || ids[2] < 0) {
        return bad_merge(rank, merge,
                         "names or makes a token that the vocabulary lacks as plain text");
      }
      merges_.add(ids[0], ids[1], {static_cast<uint32_t>(rank), ids[2]});
    }
    return {};
  }

  void encode_valid(std::string_view text, EncodeScratch& scratch,
                    std::vector<TokenId>& out) const {
    scratch.words.clear();
    pretokenizer_.split(text, scratch.words);
    for (std::string_view word : scratch.words) {
      if (scratch.cache.recall(word, out)) continue;
      const size_t before = out.size();
      encode_word(word, scratch.symbols, out);
      scratch.cache.remember(word, std::span(out).subspan(before));
    }
  }

  void encode_word(std::string_view word, std::vector<Symbol>& symbols,
                   std::vector<TokenId>& out) const {
    if (pretokenizer_.ignore_merges()) {
      const TokenId whole = pieces_.find(word);
      if (whole >= 0) {
        out.push_back(whole);
        return;
      }
    }
    symbols.clear();
    for (uint32_t at = 0; at < word.size(); ++at) {
      const TokenId id = byte_ids_[static_cast<uint8_t>(word[at])];
      if (id >= 0) symbols.push_back({at, 1, id});
    }
    merge_symbols(symbols, [this](const Symbol& left, const Symbol& right) {
      const PairTable::Merge merge = merges_.find(left.id, right.id);
      return MergeChoice{merge.rank, merge.result};
    });
    for (const Symbol& symbol : symbols) out.push_back(symbol.id);
  }

  Pretokenizer pretokenizer_;
  PairTable merges_;
  std::array<TokenId, 256> byte_ids_ = {};
};

}  // namespace

Result<std::unique_ptr<const Tokenizer>> create_bpe(TokenizerSpec spec) {
  RIDGE_TRY(Pretokenizer pretokenizer, Pretokenizer::create(spec.pre));
  auto out = std::make_unique<BpeTokenizer>(std::move(spec), std::move(pretokenizer));
  RIDGE_RETURN_IF_ERROR(out->build());
  return std::unique_ptr<const Tokenizer>(std::move(out));
}

}  // namespace ridge
