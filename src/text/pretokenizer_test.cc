// SPDX-License-Identifier: Apache-2.0
#include "text/pretokenizer.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "text/tokenizer.h"

namespace ridge {
namespace {

std::vector<size_t> word_ends(const Pretokenizer& pre, std::string_view text) {
  std::vector<std::string_view> words;
  pre.split(text, words);
  std::vector<size_t> ends;
  for (std::string_view word : words) ends.push_back(word.data() + word.size() - text.data());
  return ends;
}

TEST(Pretokenizer, words_end_where_hugging_face_ends_them) {
  std::ifstream in(RIDGE_SOURCE_DIR "/tests/data/text/pretokens.json");
  const nlohmann::json data = nlohmann::json::parse(in);
  for (std::string name : {"gpt-2", "smollm", "llama-bpe", "qwen2"}) {
    auto pre = Pretokenizer::create(name);
    ASSERT_TRUE(pre.has_value());
    int checked = 0;
    for (const auto& item : data["cases"]) {
      const std::string text = item["text"];
      const std::vector<size_t> ends = item["ends"][name];
      EXPECT_EQ(word_ends(*pre, text), ends) << name << ' ' << item["text"];
      ++checked;
    }
    EXPECT_GE(checked, 100);
  }
}

TEST(Pretokenizer, every_known_name_works_and_an_unknown_one_lists_them) {
  for (std::string_view name : known_pre_tokenizers()) {
    EXPECT_TRUE(Pretokenizer::create(name).has_value()) << name;
  }
  for (std::string_view name : {"", "default", "gpt2", "no such thing"}) {
    auto pre = Pretokenizer::create(name);
    ASSERT_FALSE(pre.has_value()) << name;
    const std::string& message = pre.error().message;
    EXPECT_NE(message.find("--pre NAME"), std::string::npos) << message;
    EXPECT_NE(message.find("smollm, "), std::string::npos) << message;
  }
}

TEST(Pretokenizer, a_long_run_is_one_word_for_the_regular_expression_too) {
  const std::string letters(1 << 20, 'a'), spaces(1 << 20, ' '), lines(1 << 20, '\n');
  for (std::string_view name : known_pre_tokenizers()) {
    auto pre = Pretokenizer::create(name);
    ASSERT_TRUE(pre.has_value());
    for (const std::string& text : {letters, spaces, lines}) {
      EXPECT_EQ(word_ends(*pre, text), std::vector<size_t>{text.size()}) << name;
    }
    EXPECT_EQ(word_ends(*pre, spaces + "b").front(), spaces.size() - 1) << name;
  }
}

}  // namespace
}  // namespace ridge
