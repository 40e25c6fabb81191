// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer.h"

#include <gtest/gtest.h>

#include <map>

#include "base/rng.h"
#include "text/chat_template.h"
#include "text/test_vocabularies.h"

namespace ridge {
namespace {

using testing_text::add_token;
using testing_text::byte_bpe;
using testing_text::byte_spm;
using testing_text::in_alphabet;
using Ids = std::vector<TokenId>;

std::unique_ptr<const Tokenizer> made(TokenizerSpec spec) {
  auto tokenizer = Tokenizer::create(std::move(spec));
  EXPECT_TRUE(tokenizer.has_value()) << tokenizer.error().message;
  return tokenizer ? *std::move(tokenizer) : nullptr;
}

std::vector<std::string> pieces_of(const Tokenizer& tokenizer, const Ids& ids) {
  std::vector<std::string> pieces;
  for (TokenId id : ids) pieces.emplace_back(tokenizer.piece(id, true));
  return pieces;
}

using Pieces = std::vector<std::string>;

TEST(Bpe, merges_go_by_rank_not_by_place) {
  auto tokenizer = made(byte_bpe({{"b", "c"}, {"a", "b"}, {"a", "bc"}}));
  EXPECT_EQ(pieces_of(*tokenizer, tokenizer->encode("abc")), Pieces({"abc"}));
  EXPECT_EQ(pieces_of(*tokenizer, tokenizer->encode("abab")), Pieces({"ab", "ab"}));
  EXPECT_EQ(pieces_of(*tokenizer, tokenizer->encode(" abc")), Pieces({" ", "abc"}));
}

// The definition, at its plainest: merge the leftmost of the best pairs, one at a time.
template <class Best>  // int Best(left, right): lower is better, -1 none
Pieces plain_merges(const std::string& text, const Best& best) {
  Pieces parts;
  for (char c : text) parts.emplace_back(1, c);
  while (true) {
    int lowest = -1;
    size_t where = 0;
    for (size_t i = 0; i + 1 < parts.size(); ++i) {
      const int rank = best(parts[i], parts[i + 1]);
      if (rank >= 0 && (lowest < 0 || rank < lowest)) {
        lowest = rank;
        where = i;
      }
    }
    if (lowest < 0) return parts;
    parts[where] += parts[where + 1];
    parts.erase(parts.begin() + where + 1);
  }
}

std::string random_word(Rng& rng, size_t length) {
  std::string text;
  for (size_t i = 0; i < length; ++i) text.push_back(static_cast<char>('a' + rng.below(3)));
  return text;
}

TEST(Bpe, short_and_long_words_agree_with_the_definition) {
  Rng rng(1);
  for (int round = 0; round < 60; ++round) {
    std::vector<std::string> words = {"a", "b", "c"};
    std::vector<std::pair<std::string, std::string>> merges;
    std::map<std::pair<std::string, std::string>, int> ranks;
    for (int i = 0; i < 30; ++i) {
      std::pair pair(words[rng.below(words.size())], words[rng.below(words.size())]);
      if (pair.first.size() + pair.second.size() > 9) continue;
      if (!ranks.try_emplace(pair, static_cast<int>(merges.size())).second) continue;
      merges.push_back(pair);
      words.push_back(pair.first + pair.second);
    }
    auto tokenizer = made(byte_bpe(merges));
    auto best = [&](const std::string& left, const std::string& right) {
      const auto found = ranks.find({left, right});
      return found == ranks.end() ? -1 : found->second;
    };
    for (size_t length : {1, 2, 7, 31, 32, 33, 34, 100, 300}) {
      const std::string text = random_word(rng, length);
      ASSERT_EQ(pieces_of(*tokenizer, tokenizer->encode(text)), plain_merges(text, best)) << text;
    }
  }
}

TEST(Spm, short_and_long_words_agree_with_the_definition) {
  Rng rng(2);
  for (int round = 0; round < 60; ++round) {
    TokenizerSpec spec = byte_spm();
    std::map<std::string, int> places;
    for (std::string letter : {"a", "b", "c"}) add_token(spec, letter, TokenKind::normal, -1e6f);
    for (int i = 0; i < 30; ++i) {
      const std::string word = random_word(rng, 2 + rng.below(4));
      if (!places.try_emplace(word, i).second) continue;
      add_token(spec, word, TokenKind::normal, static_cast<float>(-i) * 0.5f);
    }
    auto tokenizer = made(spec);
    auto best = [&](const std::string& left, const std::string& right) {
      const auto found = places.find(left + right);
      return found == places.end() ? -1 : found->second;
    };
    for (size_t length : {1, 2, 7, 31, 32, 33, 34, 100, 300}) {
      const std::string text = random_word(rng, length);
      ASSERT_EQ(pieces_of(*tokenizer, tokenizer->encode(text)), plain_merges(text, best)) << text;
    }
  }
}

TEST(Bpe, a_long_text_with_its_word_cache_equals_its_words_alone) {
  Rng rng(3);
  auto tokenizer = made(byte_bpe({{"a", "b"}, {" ", "a"}, {" a", "b"}, {"c", "c"}, {"ab", "cc"}}));
  std::string text;
  Ids expected;
  for (int i = 0; i < 5000; ++i) {
    const std::string word = " " + random_word(rng, 1 + rng.below(6));
    const Ids ids = tokenizer->encode(word);
    text += word;
    expected.insert(expected.end(), ids.begin(), ids.end());
  }
  EXPECT_EQ(tokenizer->encode(text), expected);
}

TEST(Bpe, llama3_takes_a_word_that_is_a_token_whole) {
  TokenizerSpec spec = byte_bpe({{"a", "b"}});
  const TokenId whole = add_token(spec, "abc", TokenKind::normal);  // no merge makes it
  EXPECT_EQ(pieces_of(*made(spec), made(spec)->encode("abc")), Pieces({"ab", "c"}));
  spec.pre = "llama-bpe";
  EXPECT_EQ(made(spec)->encode("abc"), Ids({whole}));
}

TEST(Bpe, invalid_utf8_comes_back_byte_for_byte) {
  auto tokenizer = made(byte_bpe({{"\xe4", "\xb8"}, {"a", "b"}}));
  for (std::string text : {"\xff",
                           "ab\x80"
                           "ab",
                           "\xe4\xb8", "a\xf0\x9f\x98", "\xc0\xaf\xed\xa0\x80"}) {
    EXPECT_EQ(tokenizer->decode(tokenizer->encode(text)), text);
  }
  // Each such byte is a word of its own: nothing merges with it.
  EXPECT_EQ(tokenizer->encode("\xe4\xb8"), Ids({0xe4, 0xb8}));
}

TEST(Bpe, a_byte_that_the_vocabulary_lacks_is_dropped_as_hugging_face_does) {
  TokenizerSpec spec = byte_bpe({{"a", "b"}});
  spec.tokens[4] = "nobyte";
  EXPECT_EQ(pieces_of(*made(spec), made(spec)->encode("\x04x")), Pieces({"x"}));
}

TEST(Special, control_tokens_are_text_unless_they_are_asked_for) {
  for (TokenizerSpec spec : {byte_bpe(), byte_spm()}) {
    const TokenId end = add_token(spec, "<|im_end|>", TokenKind::control);
    auto tokenizer = made(spec);
    const Ids plain = tokenizer->encode("a<|im_end|>b", {false, false});
    EXPECT_EQ(std::count(plain.begin(), plain.end(), end), 0);
    EXPECT_EQ(tokenizer->decode(plain), "a<|im_end|>b");
    EXPECT_EQ(tokenizer->encode("a<|im_end|>b", {false, true}), Ids({'a', end, 'b'}));
    EXPECT_EQ(tokenizer->piece(end), "");
    EXPECT_EQ(tokenizer->piece(end, true), "<|im_end|>");
    EXPECT_TRUE(tokenizer->ends_generation(end));
  }
}

TEST(Special, no_merge_makes_a_control_token) {
  TokenizerSpec spec = byte_spm();
  for (std::string text : {"<", "b", ">", "<b"}) add_token(spec, text, TokenKind::normal, -1);
  const TokenId control = add_token(spec, "<b>", TokenKind::control, 10);
  EXPECT_EQ(pieces_of(*made(spec), made(spec)->encode("<b>")), Pieces({"<b", ">"}));
  EXPECT_EQ(made(spec)->encode("<b>", {false, true}), Ids({control}));
}

TEST(Special, user_defined_tokens_match_always_leftmost_and_longest) {
  for (TokenizerSpec spec : {byte_bpe(), byte_spm()}) {
    const TokenId one = add_token(spec, "\n", TokenKind::user_defined);
    const TokenId three = add_token(spec, "\n\n\n", TokenKind::user_defined);
    const TokenId tag = add_token(spec, "<b>", TokenKind::user_defined);
    auto tokenizer = made(spec);
    EXPECT_EQ(tokenizer->encode("\n\n\n\n\nx<b><b"), Ids({three, one, one, 'x', tag, '<', 'b'}));
    EXPECT_EQ(tokenizer->piece(tag), "<b>");
  }
}

TEST(Special, a_second_bos_is_never_added) {
  for (TokenizerSpec spec : {byte_bpe(), byte_spm()}) {
    spec.bos = add_token(spec, "<begin>", TokenKind::control);
    spec.eos = add_token(spec, "<end>", TokenKind::control);
    spec.add_bos = spec.add_eos = true;
    auto tokenizer = made(spec);
    EXPECT_EQ(tokenizer->encode("a"), Ids({spec.bos, 'a', spec.eos}));
    EXPECT_EQ(tokenizer->encode(""), Ids({spec.bos, spec.eos}));
    EXPECT_EQ(tokenizer->encode("a", {false, true}), Ids({'a'}));
    EXPECT_EQ(tokenizer->encode("<begin>a<end>", {true, true}), Ids({spec.bos, 'a', spec.eos}));
    // Spelled by a user it is text, and the real one comes first.
    const Ids ids = tokenizer->encode("<begin>a", {true, false});
    EXPECT_EQ(ids.front(), spec.bos);
    EXPECT_EQ(std::count(ids.begin(), ids.end(), spec.bos), 1);
    EXPECT_TRUE(tokenizer->ends_generation(spec.eos));
    EXPECT_FALSE(tokenizer->ends_generation(spec.bos));
    EXPECT_FALSE(tokenizer->ends_generation(-1));
    EXPECT_FALSE(tokenizer->ends_generation(1 << 30));
  }
}

TEST(Special, only_a_control_token_of_that_name_ends_a_turn) {
  TokenizerSpec spec = byte_bpe();
  const TokenId plain = add_token(spec, "<|im_end|>", TokenKind::user_defined);
  const TokenId turn = add_token(spec, "<end_of_turn>", TokenKind::control);
  spec.eot = 'z';
  auto tokenizer = made(spec);
  EXPECT_FALSE(tokenizer->ends_generation(plain));
  EXPECT_TRUE(tokenizer->ends_generation(turn));
  EXPECT_TRUE(tokenizer->ends_generation('z'));
}

TEST(Special, borders_of_chat_spans_are_no_borders_of_tokens_except_for_control_tokens) {
  TokenizerSpec spec = byte_bpe({{"a", "b"}});
  const TokenId end = add_token(spec, "<e>", TokenKind::control);
  auto tokenizer = made(spec);
  EXPECT_EQ(pieces_of(*tokenizer, tokenizer->encode_spans({{"a", false}, {"b", true}})),
            Pieces({"ab"}));
  EXPECT_EQ(tokenizer->encode_spans({{"<e>", false}, {"<e>", true}, {"x<e>", false}}),
            Ids({end, '<', 'e', '>', 'x', end}));
  // Half from the template and half from the user is not the template's token.
  EXPECT_EQ(tokenizer->encode_spans({{"<", false}, {"e", true}, {">", false}}),
            Ids({'<', 'e', '>'}));
  EXPECT_EQ(tokenizer->encode_spans({}), Ids());
}

TEST(Spm, spaces_prefix_and_what_decoding_drops) {
  TokenizerSpec spec = byte_spm();
  spec.add_bos = spec.add_space_prefix = true;
  const TokenId hi = add_token(spec, "\xe2\x96\x81hi", TokenKind::normal, -1);
  for (std::string text : {"\xe2\x96\x81", "h", "i", "hi"}) {
    add_token(spec, text, TokenKind::normal, -5);
  }
  auto tokenizer = made(spec);
  EXPECT_EQ(tokenizer->encode("hi hi"), Ids({spec.bos, hi, hi}));
  EXPECT_EQ(tokenizer->piece(hi), " hi");
  EXPECT_EQ(tokenizer->decode({spec.bos, hi, hi}), "hi hi");
  EXPECT_EQ(tokenizer->decode(tokenizer->encode("  hi ")), "  hi ");
  EXPECT_EQ(tokenizer->encode("<s>hi", {true, true}), Ids({spec.bos, hi}));
  EXPECT_EQ(tokenizer->encode(""), Ids({spec.bos}));
}

TEST(Spm, a_character_outside_the_vocabulary_becomes_bytes_or_one_unknown) {
  EXPECT_EQ(made(byte_spm())->encode("\xe4\xb8\xad"), Ids({0xe4, 0xb8, 0xad}));
  EXPECT_EQ(made(byte_spm())->encode("\xff"), Ids({0xff}));
  TokenizerSpec spec = byte_spm();
  spec.kinds[7] = TokenKind::unused;  // now a byte is missing
  add_token(spec, "a", TokenKind::normal);
  EXPECT_EQ(made(spec)
                ->encode("a\xe4\xb8\xad\xe4\xb8\xad"
                         "a")
                .size(),
            3u);
  EXPECT_EQ(made(spec)->encode("a\xe4\xb8\xad"
                               "a")[1],
            spec.unknown);
}

TEST(Spm, text_is_cut_only_where_no_token_reaches_across) {
  TokenizerSpec spec = byte_spm();
  const std::string mark = "\xe2\x96\x81";
  for (std::string text : {mark, std::string("a"), std::string("b"), ">" + mark, ">" + mark + "<",
                           std::string(">"), std::string("<")}) {
    add_token(spec, text, TokenKind::normal, -static_cast<float>(text.size()));
  }
  const TokenId across = add_token(spec, "a>" + mark + "<", TokenKind::normal, 5);
  EXPECT_EQ(made(spec)->encode("a> <b").front(), across);
}

// A megabyte of one word: quadratic work would take hours.
TEST(Tokenizer, pathological_text_takes_no_quadratic_time) {
  TokenizerSpec bpe = byte_bpe({{"a", "a"}, {"aa", "aa"}, {"aaaa", "aaaa"}, {"a", "aa"}});
  TokenizerSpec spm = byte_spm();
  for (std::string text : {"a", "aa", "aaa", "aaaa", "aaaaaaaa"}) {
    add_token(spm, text, TokenKind::normal, static_cast<float>(text.size()));
  }
  for (const TokenizerSpec& spec : {bpe, spm}) {
    auto tokenizer = made(spec);
    for (std::string unit : {"a", "ab", " "}) {
      std::string text;
      while (text.size() < (1 << 20)) text += unit;
      EXPECT_EQ(tokenizer->decode(tokenizer->encode(text)), text);
    }
  }
}

}  // namespace
}  // namespace ridge
