// SPDX-License-Identifier: Apache-2.0
#include "text/utf8_stream.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/rng.h"

namespace ridge {
namespace {

std::string from_hex(const std::string& hex) {
  std::string out;
  for (size_t i = 0; i < hex.size(); i += 2) {
    out.push_back(static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  }
  return out;
}

struct Case {
  std::string bytes, text;
};

std::vector<Case> python_cases() {
  std::ifstream in(RIDGE_SOURCE_DIR "/tests/data/text/utf8.json");
  std::vector<Case> cases;
  const nlohmann::json data = nlohmann::json::parse(in);
  for (const auto& item : data["cases"]) {
    cases.push_back({from_hex(item["bytes"]), from_hex(item["text"])});
  }
  return cases;
}

TEST(Utf8Stream, a_whole_text_is_replaced_as_python_does) {
  const auto cases = python_cases();
  ASSERT_GT(cases.size(), 600u);
  for (const Case& c : cases) {
    EXPECT_EQ(to_valid_utf8(c.bytes), c.text) << testing::PrintToString(c.bytes);
    EXPECT_EQ(is_valid_utf8(c.bytes), c.bytes == c.text);
    EXPECT_TRUE(is_valid_utf8(c.text));
  }
}

TEST(Utf8Stream, chunking_changes_nothing_and_every_part_is_valid) {
  Rng rng(7);
  for (const Case& c : python_cases()) {
    for (int round = 0; round < 20; ++round) {
      Utf8Stream stream;
      std::string out;
      for (size_t at = 0; at < c.bytes.size();) {
        const size_t length = rng.below(4);  // empty chunks too
        const std::string part = stream.push(std::string_view(c.bytes).substr(at, length));
        EXPECT_TRUE(is_valid_utf8(part));
        out += part;
        at += length;
      }
      out += stream.finish();
      EXPECT_EQ(out, c.text) << testing::PrintToString(c.bytes);
    }
  }
}

TEST(Utf8Stream, a_character_in_four_pieces_arrives_once_and_whole) {  // fault C04
  Utf8Stream stream;
  EXPECT_EQ(stream.push("\xf0"), "");
  EXPECT_EQ(stream.push("\x9f"), "");
  EXPECT_EQ(stream.push("\x98"), "");
  EXPECT_EQ(stream.push("\x80"), "\xf0\x9f\x98\x80");
  EXPECT_EQ(stream.finish(), "");
}

TEST(Utf8Stream, a_dangling_prefix_becomes_one_replacement_character) {  // fault C04
  for (std::string prefix : {"\xf0", "\xf0\x9f", "\xf0\x9f\x98", "\xe4\xb8", "\xc3"}) {
    Utf8Stream stream;
    std::string out;
    for (char c : prefix) out += stream.push({&c, 1});
    EXPECT_EQ(out, "");
    EXPECT_EQ(stream.finish(), "\xef\xbf\xbd");
    EXPECT_EQ(stream.finish(), "");
  }
}

TEST(Utf8Stream, random_bytes_always_come_out_valid) {  // fault C05
  Rng rng(11);
  for (int round = 0; round < 1000; ++round) {
    Utf8Stream stream;
    std::string bytes, out;
    for (int i = 0; i < 64; ++i) {
      const char c = static_cast<char>(rng.below(256));
      bytes.push_back(c);
      out += stream.push({&c, 1});
      ASSERT_TRUE(is_valid_utf8(out));
    }
    out += stream.finish();
    ASSERT_TRUE(is_valid_utf8(out));
    ASSERT_EQ(out, to_valid_utf8(bytes));
  }
}

}  // namespace
}  // namespace ridge
