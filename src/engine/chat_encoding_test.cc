// SPDX-License-Identifier: Apache-2.0
#include "engine/chat_encoding.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace ridge {
namespace {

std::string joined(const std::vector<ChatSpan>& spans) {
  std::string text;
  for (const ChatSpan& span : spans) text += span.text;
  return text;
}

std::vector<ChatSpan> conversation() {
  std::vector<ChatSpan> spans(4);
  spans[0].text = "<|im_start|>user\n";
  spans[1].text = "héllo";
  spans[1].from_user = true;
  spans[2].text = "<|im_end|>\n";
  spans[3].text = "";
  return spans;
}

TEST(ChatEncoding, dropping_any_prefix_leaves_the_rest_of_the_text) {
  const std::string all = joined(conversation());
  EXPECT_EQ(text_bytes(conversation()), all.size());
  for (size_t n = 0; n <= all.size() + 3; ++n) {
    const auto rest = drop_prefix(conversation(), n);
    EXPECT_EQ(joined(rest), all.substr(std::min(n, all.size()))) << n;
    EXPECT_EQ(text_bytes(rest), all.size() - std::min(n, all.size())) << n;
    for (const ChatSpan& span : rest) EXPECT_FALSE(span.text.empty()) << n;
  }
}

TEST(ChatEncoding, what_is_left_of_a_span_keeps_its_kind) {
  auto spans = conversation();
  const auto original = spans;
  const auto rest = drop_prefix(spans, original[0].text.size() + 1);
  ASSERT_EQ(rest.size(), 2u);
  EXPECT_EQ(rest[0].text, original[1].text.substr(1));
  EXPECT_TRUE(rest[0].from_user);
  EXPECT_EQ(rest[1].text, original[2].text);
  EXPECT_FALSE(rest[1].from_user);
}

}  // namespace
}  // namespace ridge
