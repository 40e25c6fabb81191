// What BPE and SPM share: special tokens, BOS and EOS, pieces. A subclass turns plain text into
// ids. Control tokens never come out of plain text.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/merge.h"
#include "text/piece_table.h"
#include "text/special_matcher.h"
#include "text/tokenizer.h"
#include "text/word_cache.h"

namespace ridge {

// Longer plain text is cut here (positions in a word are 32 bits wide).
inline constexpr size_t kMaxPlainBytes = size_t{1} << 30;

// Working memory of one encode() call.
struct EncodeScratch {
  explicit EncodeScratch(size_t text_bytes) : cache(text_bytes) {}
  std::vector<std::string_view> words;
  std::vector<Symbol> symbols;
  std::string normal;
  WordCache cache;
};

class VocabTokenizer : public Tokenizer {
 public:
  std::vector<TokenId> encode(std::string_view text, EncodeOptions options) const override;
  std::vector<TokenId> encode_spans(const std::vector<ChatSpan>& spans,
                                    bool add_special) const override;
  std::string_view piece(TokenId id, bool render_special) const override;

 protected:
  using Tokenizer::Tokenizer;
  // Errors: a special token longer than kMaxSpecialBytes.
  Status add_specials();
  TokenKind kind(TokenId id) const {
    return spec_.kinds.empty() ? TokenKind::normal : spec_.kinds[id];
  }
  // `opens`: the text begins here, or follows a control token.
  virtual void encode_plain(std::string_view text, bool opens, EncodeScratch& scratch,
                            std::vector<TokenId>& out) const = 0;

  PieceTable pieces_;
  SpecialMatcher specials_;

 private:
  // Text of which [0, end) is one span.
  struct Region {
    size_t end = 0;
    bool trusted = false;
  };
  std::vector<TokenId> encode_regions(std::string_view text, const std::vector<Region>& regions,
                                      bool add_special) const;
  void add_bos_eos(std::vector<TokenId>& ids) const;
};

Result<std::unique_ptr<const Tokenizer>> create_bpe(TokenizerSpec spec);
Result<std::unique_ptr<const Tokenizer>> create_spm(TokenizerSpec spec);

}  // namespace ridge
