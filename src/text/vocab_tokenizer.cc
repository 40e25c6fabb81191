// SPDX-License-Identifier: Apache-2.0
#include "text/vocab_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>

#include "text/chat_template.h"

namespace ridge {
namespace {

constexpr std::string_view kSpaceMark = "\xe2\x96\x81";  // U+2581, SPM's space

std::string replaced(std::string_view text, std::string_view from, std::string_view to) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const bool hit = text.substr(at).starts_with(from);
    out += hit ? to : text.substr(at, 1);
    at += hit ? from.size() : 1;
  }
  return out;
}

}  // namespace

Status VocabTokenizer::add_specials() {
  for (TokenId id = 0; id < vocab_size(); ++id) {
    const TokenKind what = kind(id);
    if (what != TokenKind::control && what != TokenKind::user_defined) continue;
    const std::string& text = spec_.tokens[id];
    if (text.empty()) continue;  // matches nowhere
    if (text.size() > kMaxSpecialBytes) {
      return Error{ErrorCode::invalid_input,
                   fmt::format("special token {} has {} bytes of text; at most {} are expected", id,
                               text.size(), kMaxSpecialBytes)};
    }
    const bool control = what == TokenKind::control;
    specials_.add(text, id, control);
    if (control || spec_.model != TokenizerModel::spm) continue;
    // SPM's own spelling of a space: files have it or a plain space, text has the plain one.
    std::string spaces = replaced(text, kSpaceMark, " ");
    if (spaces != text) specials_.add(std::move(spaces), id, control);
  }
  specials_.build_index();
  return {};
}

std::vector<TokenId> VocabTokenizer::encode(std::string_view text, EncodeOptions options) const {
  return encode_regions(text, {{text.size(), options.parse_special}}, options.add_special);
}

std::vector<TokenId> VocabTokenizer::encode_spans(const std::vector<ChatSpan>& spans,
                                                  bool add_special) const {
  std::string text;
  std::vector<Region> regions;
  for (const ChatSpan& span : spans) {
    text += span.text;
    const bool trusted = !span.from_user;
    if (!regions.empty() && regions.back().trusted == trusted) {
      regions.back().end = text.size();
    } else {
      regions.push_back({text.size(), trusted});
    }
  }
  return encode_regions(text, regions, add_special);
}

std::vector<TokenId> VocabTokenizer::encode_regions(std::string_view text,
                                                    const std::vector<Region>& regions,
                                                    bool add_special) const {
  std::vector<TokenId> ids;
  EncodeScratch scratch(text.size());
  bool opens = true;
  size_t plain = 0, at = 0, region = 0;
  auto flush = [&](size_t end) {
    for (; plain < end; plain += std::min(kMaxPlainBytes, end - plain), opens = false) {
      encode_plain(text.substr(plain, std::min(kMaxPlainBytes, end - plain)), opens, scratch, ids);
    }
  };
  while (at < text.size()) {
    if (!specials_.may_begin_with(text[at])) {
      ++at;
      continue;
    }
    while (regions[region].end <= at) ++region;
    const size_t trusted_end = regions[region].trusted ? regions[region].end : at;
    const SpecialMatcher::Match match = specials_.match_at(text, at, trusted_end);
    if (match.id < 0) {
      ++at;
      continue;
    }
    flush(at);
    ids.push_back(match.id);
    at += match.length;
    plain = at;
    opens = kind(match.id) == TokenKind::control;
  }
  flush(text.size());
  if (add_special) add_bos_eos(ids);
  return ids;
}

void VocabTokenizer::add_bos_eos(std::vector<TokenId>& ids) const {
  if (spec_.add_bos && (ids.empty() || ids.front() != spec_.bos)) {
    ids.insert(ids.begin(), spec_.bos);
  }
  if (spec_.add_eos && (ids.empty() || ids.back() != spec_.eos)) ids.push_back(spec_.eos);
}

std::string_view VocabTokenizer::piece(TokenId id, bool render_special) const {
  if (id < 0 || id >= vocab_size()) return {};
  const TokenKind what = kind(id);
  if (what == TokenKind::control || what == TokenKind::unknown) {
    return render_special ? std::string_view(spec_.tokens[id]) : std::string_view();
  }
  return pieces_.piece(id);
}

}  // namespace ridge
