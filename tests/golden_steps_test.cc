// One sequence fed in whatever way gives the same logits, bit for bit: any chunks, any number of
// threads, token by token, after truncation, in either mode. The lengths cross pages (64), KV
// splits (256), windows and row blocks.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstring>

#include "base/rng.h"
#include "tests/golden_files.h"
#include "tests/test_session.h"

namespace ridge {
namespace {

// A model in one of its modes.
struct Mode {
  std::string model;
  bool exact = false;
  DType kv = DType::f16;
};
void PrintTo(const Mode& m, std::ostream* out) {
  *out << m.model << (m.exact ? " exact " : " fast ") << name_of(m.kv);
}

std::vector<Mode> all_modes() {
  std::vector<Mode> modes;
  for (const std::string& model : tiny_models())
    for (const bool exact : {false, true})
      for (const DType kv : {DType::f16, DType::f32})
        if (exact ? kv == DType::f32 : kv == DType::f16 || model == "gemma3")
          modes.push_back({model, exact, kv});
  return modes;
}

// Enough for three KV splits and eleven pages.
constexpr size_t kLong = 700;

class GoldenSteps : public testing::TestWithParam<Mode> {
 protected:
  GoldenSteps()
      : m_(tiny_path(GetParam().model + ".gguf"),
           {.kv_dtype = GetParam().kv, .exact = GetParam().exact}) {
    Rng rng(7);
    for (size_t i = 0; i < kLong; ++i)
      ids_.push_back(static_cast<TokenId>(rng.below(static_cast<uint64_t>(m_.vocab()))));
  }
  std::unique_ptr<Session> session(int64_t chunk, int threads) {
    return m_.session({.isa = test_isa(),
                       .context = static_cast<int64_t>(kLong),
                       .prefill_threads = threads,
                       .decode_threads = threads,
                       .prefill_chunk = chunk,
                       .max_logit_rows = chunk});
  }
  std::vector<float> logits(size_t chunk, int threads) {
    return all_logits(*session(static_cast<int64_t>(chunk), threads), ids_, chunk, m_.vocab());
  }
  // The first position whose logits differ in any bit, or -1.
  int64_t first_difference(std::span<const float> a, std::span<const float> b) const {
    CHECK(a.size() == b.size());
    const auto vocab = static_cast<size_t>(m_.vocab());
    for (size_t at = 0; at < a.size(); at += vocab)
      if (std::memcmp(a.data() + at, b.data() + at, vocab * sizeof(float)) != 0)
        return static_cast<int64_t>(at / vocab);
    return -1;
  }

  TestModel m_;
  std::vector<TokenId> ids_;
};

INSTANTIATE_TEST_SUITE_P(Golden, GoldenSteps, testing::ValuesIn(all_modes()), [](const auto& info) {
  std::string name = info.param.model + (info.param.exact ? "_exact" : "_fast") +
                     (info.param.kv == DType::f16 ? "_f16" : "_f32");
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

// Chunk 1 is cached decode: at every position its logits are those of one pass over the whole
// prefix, because a row of that pass sees nothing of the rows behind it.
TEST_P(GoldenSteps, cached_decode_equals_one_pass_over_the_prefix_at_every_position) {
  EXPECT_EQ(first_difference(logits(1, 1), logits(kLong, 1)), -1);
}

TEST_P(GoldenSteps, chunks_do_not_matter) {
  const auto whole = logits(kLong, 1);
  for (const size_t chunk : {2, 7, 64, 100})
    EXPECT_EQ(first_difference(logits(chunk, 1), whole), -1) << "chunks of " << chunk;
}

TEST_P(GoldenSteps, threads_do_not_matter) {
  const auto one = logits(100, 1);
  for (const int threads : {2, kTestThreads})
    EXPECT_EQ(first_difference(logits(100, threads), one), -1) << threads << " threads";
}

// Token by token from a place where decode is cut by KV split: each token meets at some hundred
// barriers, which is slow where threads outnumber free CPUs.
TEST_P(GoldenSteps, threads_do_not_matter_to_decode) {
  constexpr size_t kBegin = 500, kSteps = 30;  // passes 512, where the third split begins
  std::vector<std::vector<float>> by_threads;
  for (const int threads : {1, 2, kTestThreads}) {
    const auto s = session(100, threads);
    for (size_t at = 0; at < kBegin; at += 100)
      ASSERT_TRUE(s->evaluate(std::span<const TokenId>(ids_).subspan(at, 100), 0).has_value());
    by_threads.push_back(
        all_logits(*s, std::span<const TokenId>(ids_).subspan(kBegin, kSteps), 1, m_.vocab()));
  }
  EXPECT_EQ(first_difference(by_threads[1], by_threads[0]), -1);
  EXPECT_EQ(first_difference(by_threads[2], by_threads[0]), -1);
}

// A prefix recomputed alone, not as part of a longer pass, around the borders of pages and splits.
TEST_P(GoldenSteps, a_prefix_alone_gives_the_logits_it_gives_in_a_longer_text) {
  const auto whole = logits(100, 1);
  const auto vocab = static_cast<size_t>(m_.vocab());
  for (const size_t length : {1, 8, 9, 63, 64, 65, 128, 129, 255, 256, 257, 512, 513}) {
    const auto alone = session(static_cast<int64_t>(kLong), 1);
    const auto row = alone->evaluate(std::span<const TokenId>(ids_).first(length), 1);
    ASSERT_TRUE(row.has_value());
    EXPECT_EQ(first_difference({*row, vocab},
                               std::span<const float>(whole).subspan((length - 1) * vocab, vocab)),
              -1)
        << length << " tokens";
  }
}

// What truncate() leaves is as if the rest had never been, though its pages held other tokens.
TEST_P(GoldenSteps, a_truncated_sequence_continues_like_a_fresh_one) {
  constexpr size_t kKnown = 330, kOther = 70;
  const auto known = std::span<const TokenId>(ids_).first(kKnown);
  const auto fresh = all_logits(*session(64, 1), known, 64, m_.vocab());
  const auto vocab = static_cast<size_t>(m_.vocab());
  const std::vector<TokenId> other(kOther, ids_[3]);
  const auto used = session(64, 1);
  // Backwards, so that one sequence serves all cases: each keeps a prefix that is still right.
  all_logits(*used, known, 64, m_.vocab());
  for (const size_t keep : {257, 256, 65, 64, 63, 1}) {
    used->truncate(static_cast<int64_t>(keep));
    all_logits(*used, other, 64, m_.vocab());
    used->truncate(static_cast<int64_t>(keep));
    EXPECT_EQ(used->cached(), static_cast<int64_t>(keep));
    const auto rest = all_logits(*used, known.subspan(keep, kOther), 64, m_.vocab());
    EXPECT_EQ(
        first_difference(rest, std::span<const float>(fresh).subspan(keep * vocab, kOther * vocab)),
        -1)
        << keep << " tokens kept";
  }
}

// The cache's type changes numbers, and only a little: f16 keeps 11 bits.
TEST(GoldenCache, a_cache_in_f16_is_near_one_in_f32) {
  for (const std::string& model : tiny_models()) {
    const std::vector<TokenId> ids = read_golden("tiny/" + model + ".json")["ids"];
    std::vector<float> by_type[2];
    int64_t vocab = 0;
    for (const DType kv : {DType::f16, DType::f32}) {
      TestModel m(tiny_path(model + ".gguf"), {.kv_dtype = kv, .exact = true});
      vocab = m.vocab();
      const auto s = m.session({.isa = test_isa(), .prefill_chunk = 64, .max_logit_rows = 64});
      by_type[kv == DType::f32] = all_logits(*s, ids, 64, vocab);
    }
    // Each layer's output moves by about 2^-11 of itself, and layers amplify: the logits, of
    // magnitude up to 8, stay within some 2^-11 * 8 * sqrt(layers) = 0.01; ten times that is far
    // from what a wrong key or value gives (above 1).
    EXPECT_GT(largest_difference(by_type[0], by_type[1]), 0) << model;
    EXPECT_LT(largest_difference(by_type[0], by_type[1]), 0.1) << model;
  }
}

}  // namespace
}  // namespace ridge
