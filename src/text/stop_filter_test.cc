// SPDX-License-Identifier: Apache-2.0
#include "text/stop_filter.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/rng.h"

namespace ridge {
namespace {

// Where the earliest stop string begins in the whole text.
size_t reference_cut(const std::string& text, const std::vector<std::string>& stops) {
  size_t cut = text.size();
  for (const std::string& stop : stops) {
    if (!stop.empty()) cut = std::min(cut, text.find(stop));
  }
  return cut;
}

std::string random_text(Rng& rng, size_t length, int letters) {
  std::string text;
  for (size_t i = 0; i < length; ++i) text.push_back(static_cast<char>('a' + rng.below(letters)));
  return text;
}

TEST(StopFilter, any_chunking_of_any_text_gives_the_reference_cut) {  // faults C01, C02
  Rng rng(20260130);
  int hits = 0;
  for (int round = 0; round < 20000; ++round) {
    const int letters = 2 + static_cast<int>(rng.below(3));
    const std::string text = random_text(rng, rng.below(40), letters);
    std::vector<std::string> stops;
    size_t longest = 1;
    for (size_t i = rng.below(5); i > 0; --i) {
      stops.push_back(random_text(rng, rng.below(9), letters));
      longest = std::max(longest, stops.back().size());
    }
    const size_t cut = reference_cut(text, stops);
    StopFilter filter(stops);
    std::string out;
    size_t pushed = 0;
    while (pushed < text.size()) {
      const size_t length = std::min<size_t>(rng.below(6), text.size() - pushed);
      out += filter.push(std::string_view(text).substr(pushed, length));
      pushed += length;
      ASSERT_EQ(out, text.substr(0, std::min(out.size(), cut))) << text;
      if (!filter.stopped()) {
        // No byte waits longer than it must.
        ASSERT_GE(out.size() + longest - 1, pushed) << text;
      }
    }
    out += filter.finish();
    ASSERT_EQ(out, text.substr(0, cut)) << text;
    ASSERT_EQ(filter.stopped(), cut < text.size()) << text;
    if (filter.stopped()) {
      ++hits;
      ASSERT_TRUE(text.substr(cut).starts_with(filter.matched()));
      ASSERT_NE(std::find(stops.begin(), stops.end(), filter.matched()), stops.end());
    }
    ASSERT_EQ(filter.stopped() ? filter.push("more") : "", "");
  }
  EXPECT_GT(hits, 2000);
}

TEST(StopFilter, a_stop_string_cut_at_any_offset_is_noticed) {  // fault C01
  const std::string text = "The answer is 42.\n\nQuestion: next", stop = "\n\nQuestion:";
  for (size_t cut = 1; cut < text.size(); ++cut) {
    StopFilter filter({stop});
    std::string out = filter.push(text.substr(0, cut));
    out += filter.push(text.substr(cut));
    EXPECT_TRUE(filter.stopped());
    EXPECT_EQ(out, "The answer is 42.");
    EXPECT_EQ(filter.matched(), stop);
  }
}

TEST(StopFilter, a_wrong_guess_is_released_once_at_the_byte_that_rules_it_out) {  // fault C02
  StopFilter filter({"ending!"});
  EXPECT_EQ(filter.push("the end"), "the ");
  EXPECT_EQ(filter.push("in"), "");
  EXPECT_EQ(filter.push("g?"), "ending?");
  EXPECT_EQ(filter.finish(), "");
  EXPECT_FALSE(filter.stopped());
}

TEST(StopFilter, it_stops_at_once_when_nothing_earlier_can_match) {
  StopFilter filter({"ab", "abc"});
  EXPECT_EQ(filter.push("xab"), "x");
  EXPECT_TRUE(filter.stopped());
  EXPECT_EQ(filter.matched(), "ab");
}

TEST(StopFilter, an_end_of_text_settles_what_was_undecided) {
  StopFilter filter({"abc", "b"});
  EXPECT_EQ(filter.push("ab"), "");
  EXPECT_FALSE(filter.stopped());
  EXPECT_EQ(filter.finish(), "a");
  EXPECT_TRUE(filter.stopped());
  EXPECT_EQ(filter.matched(), "b");
}

TEST(StopFilter, without_stop_strings_text_passes_through) {
  StopFilter filter({"", ""});
  EXPECT_EQ(filter.push("abc"), "abc");
  EXPECT_EQ(filter.finish(), "");
  EXPECT_FALSE(filter.stopped());
}

}  // namespace
}  // namespace ridge
