// SPDX-License-Identifier: Apache-2.0
#include "text/pretokenizer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

#include "base/check.h"
#include "text/tokenizer.h"
#include "text/utf8.h"
#include "text/utf8_stream.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

namespace ridge {
namespace {

// White_Space of Unicode, which is what \s means to the engines these expressions were written for.
// PCRE2's own \s adds U+180E.
#define SPACE                                                                                 \
  "\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}" \
  "\\x{205f}\\x{3000}"

// GPT-2, src/encoder.py of openai/gpt-2 (2019).
constexpr const char* kGpt2 = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^" SPACE
                              "\\p{L}\\p{N}]+|[" SPACE "]+(?![^" SPACE "])|[" SPACE "]+";

// StarCoder and SmolLM: every numeral is cut off first, then GPT-2's expression cuts what lies
// between. In one expression: no run of numerals, and white space before a numeral counts as white
// space at the end of a text.
constexpr const char* kDigitsThenGpt2 =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+|\\p{N}| ?[^" SPACE "\\p{L}\\p{N}]+|[" SPACE "]+(?![^" SPACE
    "\\p{N}])|[" SPACE "]+";

#define CL100K_LIKE(numerals)                                                          \
  "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" numerals "| ?[^" SPACE \
  "\\p{L}\\p{N}]+[\\r\\n]*|[" SPACE "]*[\\r\\n]+|[" SPACE "]+(?![^" SPACE "])|[" SPACE "]+"

// Llama 3: tokenizer.json of meta-llama/Meta-Llama-3-8B (2024).
constexpr const char* kLlama3 = CL100K_LIKE("\\p{N}{1,3}");
// Qwen2: tokenizer.json of Qwen/Qwen2-7B (2024). Its NFC normalisation is not applied.
constexpr const char* kQwen2 = CL100K_LIKE("\\p{N}");

struct Known {
  std::string_view name;
  const char* expression;
  bool ignore_merges = false;
  bool adds_bos = false;
};

constexpr Known kKnown[] = {
    {"gpt-2", kGpt2},
    {"phi-2", kGpt2},
    {"mpt", kGpt2},
    {"olmo", kGpt2},
    {"smollm", kDigitsThenGpt2},
    {"starcoder", kDigitsThenGpt2},
    {"refact", kDigitsThenGpt2},
    {"llama-bpe", kLlama3, true, true},
    {"llama3", kLlama3, true, true},
    {"llama-v3", kLlama3, true, true},
    {"qwen2", kQwen2},
    {"deepseek-r1-qwen", kQwen2},
};

const Known* find_known(std::string_view name) {
  const auto* found = std::find_if(std::begin(kKnown), std::end(kKnown),
                                   [&](const Known& known) { return known.name == name; });
  return found == std::end(kKnown) ? nullptr : found;
}

Error unknown_pre(std::string_view name) {
  const std::string what =
      name.empty() ? std::string("no pre-tokeniser (tokenizer.ggml.pre)")
                   : fmt::format("pre-tokeniser '{}', which does not say how to cut the text",
                                 to_valid_utf8(name.substr(0, 64)));
  return {ErrorCode::not_supported,
          fmt::format("the BPE tokenizer names {}; if you know which one the model was trained "
                      "with, say so with --pre NAME, one of: {}",
                      what, fmt::join(known_pre_tokenizers(), ", "))};
}

}  // namespace

struct Pretokenizer::Code {
  pcre2_code* compiled = nullptr;
  bool jit = false;
  ~Code() { pcre2_code_free(compiled); }
};

std::vector<std::string_view> known_pre_tokenizers() {
  std::vector<std::string_view> names;
  for (const Known& known : kKnown) names.push_back(known.name);
  return names;
}

bool Pretokenizer::adds_bos_by_default(std::string_view name) {
  const Known* known = find_known(name);
  return known != nullptr && known->adds_bos;
}

Result<Pretokenizer> Pretokenizer::create(std::string_view name) {
  const Known* known = find_known(name);
  if (known == nullptr) return unknown_pre(name);
  int error = 0;
  PCRE2_SIZE where = 0;
  auto code = std::make_shared<Code>();
  // Anchored: every expression matches at every place, so words follow one another without gaps.
  code->compiled =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(known->expression), PCRE2_ZERO_TERMINATED,
                    PCRE2_UTF | PCRE2_UCP | PCRE2_ANCHORED, &error, &where, nullptr);
  CHECK(code->compiled != nullptr);
  // Fails where the system forbids executable memory; the interpreter then does the same, slower.
  code->jit = pcre2_jit_compile(code->compiled, PCRE2_JIT_COMPLETE) == 0;
  Pretokenizer out;
  out.code_ = std::move(code);
  out.ignore_merges_ = known->ignore_merges;
  return out;
}

void Pretokenizer::split(std::string_view text, std::vector<std::string_view>& words) const {
  pcre2_match_data* match = pcre2_match_data_create(1, nullptr);
  CHECK(match != nullptr);
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  for (size_t at = 0; at < text.size();) {
    int found = PCRE2_ERROR_JIT_STACKLIMIT;
    if (code_->jit) {
      found = pcre2_jit_match(code_->compiled, subject, text.size(), at, 0, match, nullptr);
    }
    if (found == PCRE2_ERROR_JIT_STACKLIMIT) {  // the interpreter's stack is the heap
      found = pcre2_match(code_->compiled, subject, text.size(), at,
                          PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, match, nullptr);
    }
    // Past PCRE2's own limits a character stands alone: the text is still covered.
    size_t end = at + utf8_step(text, at).length;
    if (found > 0) end = std::max(end, pcre2_get_ovector_pointer(match)[1]);
    words.push_back(text.substr(at, end - at));
    at = end;
  }
  pcre2_match_data_free(match);
}

}  // namespace ridge
