// Tokenizer metadata that is wrong: a sentence or a working tokenizer, never a crash. Cases follow
// the advisories on other loaders (byte tokens without a digit check, ids past the vocabulary,
// lengths of other signs, merges of missing tokens).
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "text/special_matcher.h"
#include "text/test_vocabularies.h"
#include "text/tokenizer.h"

namespace ridge {
namespace {

using testing_text::add_token;
using testing_text::byte_bpe;
using testing_text::byte_spm;
using testing_text::in_alphabet;

// The error has all of `words`.
void expect_refused(TokenizerSpec spec, std::vector<std::string> words) {
  auto tokenizer = Tokenizer::create(std::move(spec));
  ASSERT_FALSE(tokenizer.has_value()) << words.front();
  for (const std::string& word : words) {
    EXPECT_NE(tokenizer.error().message.find(word), std::string::npos) << tokenizer.error().message;
  }
}

void expect_works(TokenizerSpec spec) {
  auto tokenizer = Tokenizer::create(std::move(spec));
  ASSERT_TRUE(tokenizer.has_value()) << tokenizer.error().message;
  const std::string text = "abc <0x41> \xe4\xb8\xad\n";
  EXPECT_EQ((*tokenizer)->decode((*tokenizer)->encode(text, {false, false})), text);
  (void)(*tokenizer)->encode(text, {true, true});
  for (TokenId id : {-1, 0, 1 << 30}) (void)(*tokenizer)->piece(id, true);
}

TokenizerSpec changed(TokenizerSpec spec, const std::function<void(TokenizerSpec&)>& change) {
  change(spec);
  return spec;
}

TEST(HostileSpec, arrays_of_differing_length_are_refused) {
  expect_refused({}, {"empty vocabulary"});
  expect_refused(changed(byte_bpe(), [](auto& s) { s.kinds.pop_back(); }), {"256", "255", "types"});
  expect_refused(changed(byte_spm(), [](auto& s) { s.scores.push_back(0); }), {"scores"});
  expect_refused(changed(byte_spm(), [](auto& s) { s.scores.clear(); }), {"0 scores"});
}

TEST(HostileSpec, ids_outside_the_vocabulary_are_refused) {
  for (TokenId id : {256, 1 << 30, -2, std::numeric_limits<TokenId>::min()}) {
    expect_refused(changed(byte_bpe(), [&](auto& s) { s.bos = id; }), {"BOS", std::to_string(id)});
    expect_refused(changed(byte_bpe(), [&](auto& s) { s.eos = id; }), {"EOS"});
    expect_refused(changed(byte_bpe(), [&](auto& s) { s.eot = id; }), {"EOT"});
    expect_refused(changed(byte_bpe(), [&](auto& s) { s.unknown = id; }), {"unknown"});
  }
  expect_refused(changed(byte_bpe(), [](auto& s) { s.add_bos = true; }), {"names no BOS"});
  expect_refused(changed(byte_bpe(), [](auto& s) { s.add_eos = true; }), {"names no EOS"});
  for (int kind : {0, 7, 255}) {
    expect_refused(changed(byte_bpe(), [&](auto& s) { s.kinds[9] = TokenKind(kind); }),
                   {"token 9"});
  }
}

TEST(HostileSpec, byte_tokens_that_name_no_byte_are_refused) {
  for (std::string text : {"<0xZZ>", "<0x4>", "<0x444>", "", "A", "<0x-1>", "<0x+1>", "<0X41>"}) {
    expect_refused(changed(byte_spm(), [&](auto& s) { s.tokens[65] = text; }),
                   {"token 65", "byte"});
  }
  expect_refused(changed(byte_spm(),
                         [](auto& s) {
                           s.kinds[65] = TokenKind::normal;
                           s.unknown = -1;
                         }),
                 {"256 byte tokens", "unknown"});
}

TEST(HostileSpec, scores_that_are_no_numbers_are_refused_and_infinite_ones_work) {
  TokenizerSpec spec = byte_spm();
  for (std::string text : {"a", "b", "ab", "bc"}) add_token(spec, text, TokenKind::normal, 0);
  expect_refused(changed(spec, [](auto& s) { s.scores.back() = std::nanf(""); }), {"not a number"});
  expect_works(changed(spec, [](auto& s) { s.scores.back() = INFINITY; }));
  expect_works(changed(spec, [](auto& s) { s.scores.back() = -INFINITY; }));
}

TEST(HostileSpec, merges_of_missing_tokens_or_of_no_two_tokens_are_refused) {
  const TokenizerSpec spec = byte_bpe({{"a", "b"}});
  for (std::string merge : {"a c", "zz a", "a zz", "ab ab", "a", "", " ", "a ", " a", "\xff a",
                            "\xe4\xb8\xad a", "a b c"}) {
    expect_refused(changed(spec, [&](auto& s) { s.merges.push_back(merge); }), {"merge 1"});
  }
}

TEST(HostileSpec, duplicate_and_circular_merges_work) {
  expect_works(changed(byte_bpe({{"a", "b"}, {"b", "c"}}), [](auto& s) {
    for (int i = 0; i < 1000; ++i) s.merges.push_back(i % 2 ? "a b" : "b c");
  }));
  // ab + a and a + ba make the same token.
  expect_works(byte_bpe({{"a", "b"}, {"b", "a"}, {"ab", "a"}, {"a", "ba"}, {"aba", "aba"}}));
}

TEST(HostileSpec, token_texts_of_any_length_and_bytes_work) {
  for (const TokenizerSpec& base : {byte_bpe(), byte_spm()}) {
    for (std::string text :
         {std::string(), std::string(1, '\0'), std::string(1 << 20, 'a'), std::string("\xff\xfe"),
          std::string("\xe2\x96"), std::string("<0xZZ>"), std::string("a"), std::string("a")}) {
      for (TokenKind kind : {TokenKind::normal, TokenKind::unused, TokenKind::unknown}) {
        expect_works(changed(base, [&](auto& s) { add_token(s, text, kind, 1); }));
      }
      for (TokenKind kind : {TokenKind::control, TokenKind::user_defined}) {
        TokenizerSpec spec = base;
        const TokenId id = add_token(spec, text, kind, 1);
        if (text.size() > kMaxSpecialBytes) {
          expect_refused(spec, {"special token " + std::to_string(id), "1048576"});
        } else {
          expect_works(spec);
        }
      }
    }
  }
}

TEST(HostileSpec, duplicate_tokens_work) {
  expect_works(changed(byte_bpe(), [](auto& s) {
    for (int i = 0; i < 300; ++i) add_token(s, "a", TokenKind::normal);
  }));
  expect_works(changed(byte_spm(), [](auto& s) {
    for (int i = 0; i < 300; ++i) add_token(s, "<0x41>", TokenKind::byte);
  }));
}

}  // namespace
}  // namespace ridge
