// The tokenizers of the real models, read from their GGUF files, against what Hugging Face's
// tokenizers make of the same vocabularies (tools/make_text_golden.py). Skipped where the files are
// not there: RIDGE_TEST_SMOLLM2 and RIDGE_TEST_GEMMA3 name them.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "engine/tokenizer_from_gguf.h"
#include "model/gguf.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace ridge {
namespace {

nlohmann::json golden(const std::string& name) {
  std::ifstream in(std::string(RIDGE_SOURCE_DIR) + "/tests/data/text/" + name);
  EXPECT_TRUE(in.is_open()) << name;
  return nlohmann::json::parse(in);
}

class GoldenTokenizer : public testing::Test {
 protected:
  // nullptr (and the test is skipped) if the variable is not set.
  const Tokenizer* load(const char* variable) {
    const char* path = std::getenv(variable);
    if (path == nullptr || *path == 0) return nullptr;
    auto file = GgufFile::open(path);
    EXPECT_TRUE(file.has_value()) << file.error().message;
    if (!file) return nullptr;
    if (auto source = file->string("tokenizer.chat_template")) template_ = *source;
    const Seconds start = now();
    auto made = tokenizer_from_gguf(*file);
    load_ms_ = milliseconds(now() - start);
    EXPECT_TRUE(made.has_value()) << made.error().message;
    if (!made) return nullptr;
    tokenizer_ = std::move(*made);
    return tokenizer_.get();
  }

  void expect_golden_ids(const std::string& name) {
    const nlohmann::json data = golden(name);
    int checked = 0;
    for (const auto& item : data["cases"]) {
      const std::string text = item["text"];
      const std::vector<TokenId> plain = item["plain"], special = item["special"];
      EXPECT_EQ(tokenizer_->encode(text, {false, false}), plain) << item["text"];
      EXPECT_EQ(tokenizer_->encode(text, {false, true}), special) << item["text"];
      ++checked;
    }
    EXPECT_GE(checked, 250);
  }

  std::unique_ptr<const Tokenizer> tokenizer_;
  std::string template_;
  double load_ms_ = 0;
};

#define SKIP_WITHOUT(variable)                                                              \
  if (load(variable) == nullptr) {                                                          \
    if (HasFailure()) return;                                                               \
    GTEST_SKIP() << "SKIPPED: " << variable << " is not set to the path of the model file"; \
  }

TEST_F(GoldenTokenizer, smollm2_gives_the_ids_of_hugging_face) {
  SKIP_WITHOUT("RIDGE_TEST_SMOLLM2");
  expect_golden_ids("smollm2_ids.json");
}

TEST_F(GoldenTokenizer, gemma3_gives_the_ids_of_hugging_face) {
  SKIP_WITHOUT("RIDGE_TEST_GEMMA3");
  expect_golden_ids("gemma3_ids.json");
}

TEST_F(GoldenTokenizer, smollm2_decodes_what_it_encodes) {
  SKIP_WITHOUT("RIDGE_TEST_SMOLLM2");
  for (const auto& item : golden("smollm2_ids.json")["cases"]) {
    std::string text = item["text"];
    // The vocabulary lacks the tokens of these bytes: Hugging Face drops them too.
    std::erase_if(text, [](char c) {
      return std::string_view("\x04\x06\x13\x14\x16\x1d\xf1\xf2\xf5").find(c) != std::string::npos;
    });
    EXPECT_EQ(tokenizer_->decode(tokenizer_->encode(text)), text);
  }
}

TEST_F(GoldenTokenizer, gemma3_decodes_what_it_encodes) {
  SKIP_WITHOUT("RIDGE_TEST_GEMMA3");
  for (const auto& item : golden("gemma3_ids.json")["cases"]) {
    const std::string text = item["text"];
    if (text.find("\xe2\x96\x81") != std::string::npos) continue;  // SPM's mark means a space
    EXPECT_EQ(tokenizer_->decode(tokenizer_->encode(text)), text);
  }
}

TEST_F(GoldenTokenizer, gemma3_begins_with_one_bos_and_ends_on_its_turn_token) {
  SKIP_WITHOUT("RIDGE_TEST_GEMMA3");
  EXPECT_EQ(tokenizer_->encode("<bos>hi", {true, true}), tokenizer_->encode("hi"));
  EXPECT_EQ(tokenizer_->encode("hi").front(), 2);
  EXPECT_TRUE(tokenizer_->ends_generation(1));    // <eos>
  EXPECT_TRUE(tokenizer_->ends_generation(106));  // <end_of_turn>
  EXPECT_FALSE(tokenizer_->ends_generation(107));
}

TEST_F(GoldenTokenizer,
       smollm2_chat_is_tokenised_as_the_joined_text_and_users_spell_no_control_token) {
  SKIP_WITHOUT("RIDGE_TEST_SMOLLM2");
  const nlohmann::json data = golden("chat_smollm2.json");
  EXPECT_EQ(template_, data["source"].get<std::string>());
  auto chat = ChatTemplate::create(template_);
  ASSERT_TRUE(chat.has_value());
  for (const auto& item : data["cases"]) {
    std::vector<ChatMessage> messages;
    bool spells_control = false;
    for (const auto& message : item["messages"]) {
      messages.push_back({message["role"], message["content"]});
      spells_control |= messages.back().content.find("<|im_") != std::string::npos;
    }
    const auto ids =
        tokenizer_->encode_spans(chat->render(messages, item["add_generation_prompt"]));
    const std::string text = item["text"];
    EXPECT_EQ(tokenizer_->decode(ids, true), text);
    if (!spells_control) {
      EXPECT_EQ(ids, tokenizer_->encode(text, {true, true}));
    }
    // Two control tokens for each turn and one for the opened one: the users' own are text.
    const bool adds_system = !messages.empty() && messages[0].role != "system";
    const size_t turns = messages.size() + (adds_system ? 1 : 0);
    const size_t expected = 2 * turns + (item["add_generation_prompt"].get<bool>() ? 1 : 0);
    EXPECT_EQ(std::count_if(ids.begin(), ids.end(),
                            [&](TokenId id) { return tokenizer_->is_control(id); }),
              static_cast<std::ptrdiff_t>(expected));
  }
}

TEST_F(GoldenTokenizer, a_file_without_a_known_pre_tokeniser_is_refused_and_can_be_overridden) {
  const char* path = std::getenv("RIDGE_TEST_SMOLLM2");
  if (path == nullptr) GTEST_SKIP() << "SKIPPED: RIDGE_TEST_SMOLLM2 is not set";
  auto file = GgufFile::open(path);
  ASSERT_TRUE(file.has_value());
  auto refused = tokenizer_from_gguf(*file, "default");
  ASSERT_FALSE(refused.has_value());
  EXPECT_NE(refused.error().message.find("--pre"), std::string::npos);
  auto gpt2 = tokenizer_from_gguf(*file, "gpt-2");
  ASSERT_TRUE(gpt2.has_value());
  EXPECT_EQ((*gpt2)->spec().pre, "gpt-2");
}

// A figure, and a guard against quadratic time.
TEST_F(GoldenTokenizer, a_megabyte_of_anything_is_tokenised_in_seconds) {
  for (const char* variable : {"RIDGE_TEST_SMOLLM2", "RIDGE_TEST_GEMMA3"}) {
    SKIP_WITHOUT(variable);
    RecordProperty(std::string(variable) + "_load_ms", std::to_string(load_ms_));
    for (std::string unit : {"a", " ", "ab", "<", "\xff"}) {
      std::string text;
      while (text.size() < 1'000'000) text += unit;
      const Seconds start = now();
      const auto ids = tokenizer_->encode(text, {false, true});
      const double seconds = (now() - start).value;
      EXPECT_LT(seconds, 20) << variable << " '" << unit << "'";  // quadratic: hours
      EXPECT_LT(ids.size(), 1'000'001u);
    }
  }
}

}  // namespace
}  // namespace ridge
