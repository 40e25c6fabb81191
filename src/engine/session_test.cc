// SPDX-License-Identifier: Apache-2.0
#include "engine/session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../../tests/test_session.h"
#include "text/utf8_stream.h"

namespace ridge {
namespace {

using testing::HasSubstr;

class SessionTest : public testing::Test {
 protected:
  std::unique_ptr<Session> session(int64_t context = 256) {
    return m_.session({.isa = test_isa(), .context = context, .prefill_chunk = 16});
  }
  static std::vector<TokenId> prompt(size_t n, TokenId first = 10) {
    std::vector<TokenId> ids;
    for (size_t i = 0; i < n; ++i) ids.push_back(first + static_cast<TokenId>(i * 7 % 200));
    return ids;
  }
  Generation run(Session& s, const std::vector<TokenId>& ids, const GenerateOptions& options) {
    auto out = generate(s, ids, options);
    if (!out) ADD_FAILURE() << out.error().message;
    return out ? *out : Generation{};
  }

  TestModel m_{tiny_path("llama.gguf")};
};

TEST_F(SessionTest, a_prompt_that_does_not_fit_is_refused_with_both_numbers_and_changes_nothing) {
  const auto s = session(20);
  const auto out = generate(*s, prompt(21), greedy_options(4));
  ASSERT_FALSE(out.has_value());
  EXPECT_THAT(out.error().message, HasSubstr("21"));
  EXPECT_THAT(out.error().message, HasSubstr("20"));
  EXPECT_EQ(s->tokens().size(), 0u);
  EXPECT_TRUE(generate(*s, prompt(20), greedy_options(1)).has_value());
}

TEST_F(SessionTest, a_second_prompt_counts_what_the_context_already_holds) {
  const auto s = session(20);
  run(*s, prompt(10), greedy_options(4));
  const auto out = generate(*s, prompt(7), greedy_options(1));
  ASSERT_FALSE(out.has_value());
  EXPECT_THAT(out.error().message, HasSubstr("21"));
}

TEST_F(SessionTest, nothing_to_begin_with_is_refused) {
  const auto s = session();
  const auto out = generate(*s, {}, greedy_options(4));
  ASSERT_FALSE(out.has_value());
  EXPECT_THAT(out.error().message, HasSubstr("empty"));
}

TEST_F(SessionTest, a_full_context_ends_the_text_with_reason_length) {
  for (const size_t room : {0, 1, 3}) {
    const auto s = session(64);
    const Generation out = run(*s, prompt(64 - room), greedy_options(-1));
    // The last token is sampled and never fed: it needs no place.
    EXPECT_EQ(out.tokens.size(), room + 1);
    EXPECT_EQ(out.reason, FinishReason::length);
    EXPECT_EQ(s->cached(), 64);
  }
}

TEST_F(SessionTest, max_tokens_is_kept_to_the_token) {
  for (const int64_t n : {0, 1, 2, 9}) {
    const auto s = session();
    const Generation out = run(*s, prompt(5), greedy_options(n));
    EXPECT_EQ(static_cast<int64_t>(out.tokens.size()), n);
    EXPECT_EQ(out.reason, FinishReason::length);
    EXPECT_STREQ(name_of(out.reason), "length");
  }
}

TEST_F(SessionTest, a_stop_string_is_found_across_tokens_and_is_not_in_the_text) {
  const Generation whole = run(*session(), prompt(5), greedy_options(40));
  const std::string& text = whole.text;
  ASSERT_GT(text.size(), 30u);
  int tried = 0, across = 0;
  for (size_t at = 0; at + 4 < text.size(); ++at) {
    const std::string stop = text.substr(at, 4);
    if (!is_valid_utf8(stop)) continue;
    GenerateOptions options = greedy_options(40);
    options.stops = {"never said", stop};
    const Generation out = run(*session(), prompt(5), options);
    EXPECT_EQ(out.text, text.substr(0, text.find(stop)));
    EXPECT_EQ(out.reason, FinishReason::stop);
    ASSERT_LE(out.tokens.size(), whole.tokens.size());
    EXPECT_TRUE(std::equal(out.tokens.begin(), out.tokens.end(), whole.tokens.begin()));
    const auto last = m_.model->tokenizer().piece(out.tokens.back());
    if (last.size() < stop.size()) ++across;
    ++tried;
  }
  EXPECT_GT(tried, 10);
  EXPECT_GT(across, 5);
}

TEST_F(SessionTest, what_is_streamed_is_the_text) {
  const auto s = session();
  std::string shown;
  const std::atomic<bool> never{false};
  const auto ids = prompt(5);
  const auto out = s->generate(
      ids, greedy_options(30), [&](const std::string& piece) { shown += piece; }, never);
  ASSERT_TRUE(out.has_value());
  EXPECT_EQ(shown, out->text);
}

TEST_F(SessionTest, an_end_token_ends_the_text_and_is_not_in_it) {
  int ended = 0;
  for (uint64_t seed = 0; seed < 12; ++seed) {
    GenerateOptions options{.max_tokens = 120};
    options.sampling = {.temperature = 4, .top_k = 0, .top_p = 1, .min_p = 0, .seed = seed};
    const Generation out = run(*session(), prompt(5), options);
    const Tokenizer& tokenizer = m_.model->tokenizer();
    for (size_t i = 0; i + 1 < out.tokens.size(); ++i)
      EXPECT_FALSE(tokenizer.ends_generation(out.tokens[i]));
    if (out.reason != FinishReason::stop) continue;
    ++ended;
    EXPECT_TRUE(tokenizer.ends_generation(out.tokens.back()));
    EXPECT_EQ(out.text.find("<|im_end|>"), std::string::npos);
    // With ignore_eos the same draws go on past it.
    options.ignore_eos = true;
    const Generation longer = run(*session(), prompt(5), options);
    EXPECT_EQ(longer.tokens.size(), 120u);
    EXPECT_TRUE(std::equal(out.tokens.begin(), out.tokens.end(), longer.tokens.begin()));
  }
  EXPECT_GT(ended, 2);
}

TEST_F(SessionTest, a_set_flag_ends_the_text_within_one_step) {
  const auto s = session();
  std::atomic<bool> cancelled{false};
  size_t pieces = 0;
  const auto ids = prompt(5);
  const auto out = s->generate(
      ids, greedy_options(100), [&](const std::string&) { cancelled = ++pieces == 4; }, cancelled);
  ASSERT_TRUE(out.has_value());
  EXPECT_EQ(out->reason, FinishReason::cancelled);
  EXPECT_LT(out->tokens.size(), 40u);
  // Held-back bytes aside, nothing came after the flag.
  EXPECT_LE(pieces, 5u);
}

TEST_F(SessionTest, a_flag_set_during_the_prompt_leaves_a_session_that_can_go_on) {
  const auto s = session();
  const std::atomic<bool> set{true};
  const auto ids = prompt(50);
  const auto out = s->generate(ids, greedy_options(10), {}, set);
  ASSERT_TRUE(out.has_value());
  EXPECT_EQ(out->reason, FinishReason::cancelled);
  EXPECT_EQ(out->tokens.size(), 0u);
  EXPECT_LE(s->cached(), 16);
  EXPECT_EQ(run(*s, {}, greedy_options(10)).tokens,
            run(*session(), ids, greedy_options(10)).tokens);
}

TEST_F(SessionTest, a_second_turn_prefills_only_what_is_new_and_equals_a_fresh_run) {
  const auto s = session();
  const Generation first = run(*s, prompt(20), greedy_options(8));
  EXPECT_EQ(s->cached(), 27);  // all but the last token
  EXPECT_EQ(s->tokens().size(), 28u);
  const int64_t before = m_.book->phase(Phase::prefill).rows;
  const Generation second = run(*s, prompt(9, 30), greedy_options(8));
  EXPECT_EQ(m_.book->phase(Phase::prefill).rows - before, 1 + 9);

  std::vector<TokenId> all = prompt(20);
  all.insert(all.end(), first.tokens.begin(), first.tokens.end());
  for (const TokenId id : prompt(9, 30)) all.push_back(id);
  EXPECT_EQ(run(*session(), all, greedy_options(8)).tokens, second.tokens);
}

TEST_F(SessionTest, a_truncated_conversation_goes_on_like_a_fresh_one) {
  const auto s = session();
  run(*s, prompt(70), greedy_options(8));
  s->truncate(65);
  const Generation again = run(*s, prompt(9, 30), greedy_options(8));
  std::vector<TokenId> all = prompt(70);
  all.resize(65);
  for (const TokenId id : prompt(9, 30)) all.push_back(id);
  EXPECT_EQ(run(*session(), all, greedy_options(8)).tokens, again.tokens);
  s->truncate(0);
  EXPECT_EQ(s->cached(), 0);
  EXPECT_EQ(s->tokens().size(), 0u);
  s->truncate(100);  // longer than it is: nothing to forget
  EXPECT_EQ(s->tokens().size(), 0u);
}

TEST_F(SessionTest, a_truncated_session_can_be_run_again_from_its_last_token) {
  const auto s = session();
  const Generation first = run(*s, prompt(30), greedy_options(6));
  s->truncate(30);
  // All 30 are cached: there is no token to begin with until one is fed again.
  EXPECT_FALSE(generate(*s, {}, greedy_options(6)).has_value());
  s->truncate(29);
  EXPECT_EQ(run(*s, {prompt(30).back()}, greedy_options(6)).tokens, first.tokens);
}

TEST_F(SessionTest, the_same_seed_gives_the_same_text) {
  GenerateOptions options{.max_tokens = 30, .ignore_eos = true};
  options.sampling.seed = 5;
  const Generation a = run(*session(), prompt(5), options), b = run(*session(), prompt(5), options);
  EXPECT_EQ(a.tokens, b.tokens);
  options.sampling.seed = 6;
  EXPECT_NE(run(*session(), prompt(5), options).tokens, a.tokens);
}

TEST_F(SessionTest, steps_are_booked_by_phase) {
  const auto s = session();
  run(*s, prompt(40), greedy_options(6));
  EXPECT_EQ(m_.book->phase(Phase::prefill).rows, 40);
  EXPECT_EQ(m_.book->phase(Phase::prefill).steps, 3);  // chunks of 16
  EXPECT_EQ(m_.book->phase(Phase::decode).steps, 5);   // the first token comes from the prompt
  EXPECT_EQ(m_.book->phase(Phase::decode).untimed_steps, 0);
  EXPECT_GE(m_.book->phase(Phase::decode).wall, m_.book->phase(Phase::decode).kernels);
}

// Most of this vocabulary are single bytes: hot draws are mostly broken UTF-8.
TEST(SessionBytes, text_is_valid_utf8_whatever_bytes_are_drawn) {
  TestModel m(tiny_path("gemma3.gguf"));
  int with_replacements = 0;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const auto s = m.session({.isa = test_isa(), .context = 128});
    GenerateOptions options{.max_tokens = 60, .ignore_eos = true};
    options.sampling = {.temperature = 5, .top_k = 0, .top_p = 1, .min_p = 0, .seed = seed};
    bool pieces_valid = true;
    const std::atomic<bool> never{false};
    const TokenId prompt[] = {2, 50};
    const auto out = s->generate(
        prompt, options, [&](const std::string& t) { pieces_valid &= is_valid_utf8(t); }, never);
    ASSERT_TRUE(out.has_value());
    EXPECT_TRUE(pieces_valid) << seed;
    EXPECT_TRUE(is_valid_utf8(out->text)) << seed;
    with_replacements += out->text.find("\xef\xbf\xbd") != std::string::npos;
  }
  EXPECT_GT(with_replacements, 10);
}

}  // namespace
}  // namespace ridge
