// Cuts text into the words that byte-level BPE merges within, as the named model family's own
// pre-tokeniser does (one regular expression each, run by PCRE2). The words cover the text.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace ridge {

class Pretokenizer {
 public:
  // `name`: a value of tokenizer.ggml.pre. Error (not_supported): it is not a known one.
  static Result<Pretokenizer> create(std::string_view name);

  // Appends the words of `text`, in order and without gaps. `text` must be valid UTF-8.
  void split(std::string_view text, std::vector<std::string_view>& words) const;
  // A word that is a whole vocabulary entry is that token, whatever the merges say.
  bool ignore_merges() const { return ignore_merges_; }
  // Llama 3 files begin a text with BOS although their metadata may not say so.
  static bool adds_bos_by_default(std::string_view name);

 private:
  struct Code;
  Pretokenizer() = default;
  std::shared_ptr<const Code> code_;
  bool ignore_merges_ = false;
};

}  // namespace ridge
