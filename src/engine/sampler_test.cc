// SPDX-License-Identifier: Apache-2.0
#include "engine/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

namespace ridge {
namespace {

constexpr SamplingParams kPlainDraw{.temperature = 1, .top_k = 0, .top_p = 1, .min_p = 0};

std::vector<float> random_logits(uint64_t seed, size_t n) {
  Rng rng(seed);
  std::vector<float> logits(n);
  for (float& x : logits) x = static_cast<float>(12 * rng.uniform() - 6);
  return logits;
}

TEST(Greedy, the_lowest_id_wins_a_tie) {
  for (const size_t n : {1, 2, 63, 64, 65, 200, 1000}) {
    for (size_t at = 0; at < n; at += 1 + n / 50) {
      std::vector<float> logits(n, -3);
      logits[at] = 2;
      logits[n - 1] = 2;
      EXPECT_EQ(greedy(logits.data(), static_cast<int64_t>(n)), static_cast<TokenId>(at)) << n;
    }
  }
}

TEST(Greedy, it_is_the_argmax_of_random_logits) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const auto logits = random_logits(seed, 1 + 13 * seed);
    const auto best = std::max_element(logits.begin(), logits.end()) - logits.begin();
    EXPECT_EQ(greedy(logits.data(), static_cast<int64_t>(logits.size())), best) << seed;
  }
}

TEST(Sampler, temperature_zero_is_greedy_whatever_else_is_set) {
  auto logits = random_logits(3, 300);
  const TokenId best = greedy(logits.data(), 300);
  Sampler sampler({.temperature = 0, .top_k = 5, .top_p = 0.1, .min_p = 0.9}, 300);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(sampler.sample(logits.data(), {}), best);
}

// The distribution by its definition: temperature, then the k best, then of those the best until
// their share reaches top_p, and of those the ones with at least min_p of the best's probability.
std::map<TokenId, double> brute_force(const std::vector<float>& logits, const SamplingParams& p) {
  std::vector<TokenId> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](TokenId a, TokenId b) {
    return logits[static_cast<size_t>(a)] > logits[static_cast<size_t>(b)];
  });
  if (p.top_k > 0) order.resize(std::min(order.size(), static_cast<size_t>(p.top_k)));
  std::vector<double> share;
  for (const TokenId id : order)
    share.push_back(std::exp(static_cast<double>(logits[static_cast<size_t>(id)]) / p.temperature));
  const double total = std::accumulate(share.begin(), share.end(), 0.0);
  std::map<TokenId, double> kept;
  double before = 0, kept_total = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    if (i > 0 && (before / total >= p.top_p || share[i] / share[0] < p.min_p)) break;
    before += share[i];
    kept[order[i]] = share[i];
    kept_total += share[i];
  }
  for (auto& [id, probability] : kept) probability /= kept_total;
  return kept;
}

// Chi-square of draws against `expected`; tokens that are expected in fewer than 5 draws are pooled
// (Cochran's rule). Returns how many standard deviations above its mean it is.
double chi_square_deviations(const std::map<TokenId, int64_t>& drawn,
                             const std::map<TokenId, double>& expected, int64_t draws) {
  double chi = 0, pooled_expected = 0, pooled_drawn = 0;
  int64_t cells = 0;
  const auto add = [&](double want, double got) {
    chi += (got - want) * (got - want) / want;
    ++cells;
  };
  for (const auto& [id, probability] : expected) {
    const double want = probability * static_cast<double>(draws);
    const auto found = drawn.find(id);
    const double got = found == drawn.end() ? 0 : static_cast<double>(found->second);
    if (want >= 5) {
      add(want, got);
    } else {
      pooled_expected += want;
      pooled_drawn += got;
    }
  }
  if (pooled_expected >= 5) add(pooled_expected, pooled_drawn);
  const auto freedom = static_cast<double>(std::max<int64_t>(1, cells - 1));
  return (chi - freedom) / std::sqrt(2 * freedom);
}

struct DrawCase {
  const char* name;
  SamplingParams params;
};

class SamplerDraws : public testing::TestWithParam<DrawCase> {};
INSTANTIATE_TEST_SUITE_P(
    Sampler, SamplerDraws,
    testing::Values(DrawCase{"plain", kPlainDraw},
                    DrawCase{"cold", {.temperature = 0.5, .top_k = 0, .top_p = 1, .min_p = 0}},
                    DrawCase{"hot", {.temperature = 3, .top_k = 0, .top_p = 1, .min_p = 0}},
                    DrawCase{"top_k", {.temperature = 1, .top_k = 7, .top_p = 1, .min_p = 0}},
                    DrawCase{"top_k_one", {.temperature = 1, .top_k = 1, .top_p = 1, .min_p = 0}},
                    DrawCase{"top_p", {.temperature = 1, .top_k = 0, .top_p = 0.6, .min_p = 0}},
                    DrawCase{"top_p_zero", {.temperature = 1, .top_k = 0, .top_p = 0, .min_p = 0}},
                    DrawCase{"min_p", {.temperature = 1, .top_k = 0, .top_p = 1, .min_p = 0.2}},
                    DrawCase{"all", {.temperature = 1.5, .top_k = 20, .top_p = 0.9, .min_p = 0.1}},
                    DrawCase{"defaults", {}}),
    [](const auto& info) { return std::string(info.param.name); });

TEST_P(SamplerDraws, draws_follow_the_distribution_by_its_definition) {
  constexpr int64_t kDraws = 20000;
  for (const size_t vocab : {5, 40, 400}) {
    const auto logits = random_logits(vocab, vocab);
    const auto expected = brute_force(logits, GetParam().params);
    Sampler sampler(GetParam().params, static_cast<int64_t>(vocab));
    std::map<TokenId, int64_t> drawn;
    std::vector<float> scratch;
    for (int64_t i = 0; i < kDraws; ++i) {
      scratch = logits;
      ++drawn[sampler.sample(scratch.data(), {})];
    }
    for (const auto& [id, n] : drawn) EXPECT_TRUE(expected.contains(id)) << "token " << id;
    // The seed is fixed: this can only fail when the sampler changes. 5 deviations are 1 in 10^5.
    EXPECT_LT(chi_square_deviations(drawn, expected, kDraws), 5) << vocab;
  }
}

TEST(Sampler, a_skewed_sampler_fails_the_chi_square) {
  const auto logits = random_logits(40, 40);
  Sampler sampler({.temperature = 1.1, .top_k = 0, .top_p = 1, .min_p = 0}, 40);
  std::map<TokenId, int64_t> drawn;
  std::vector<float> scratch;
  for (int i = 0; i < 20000; ++i) {
    scratch = logits;
    ++drawn[sampler.sample(scratch.data(), {})];
  }
  EXPECT_GT(chi_square_deviations(drawn, brute_force(logits, kPlainDraw), 20000), 5);
}

// More candidates than one run of sorting takes, all alike: top-p must sort on.
TEST(Sampler, top_p_reaches_past_the_first_run_of_candidates) {
  const size_t n = 3000;
  std::vector<float> logits(n, 0);
  const SamplingParams params{.temperature = 1, .top_k = 0, .top_p = 0.5, .min_p = 0, .seed = 9};
  Sampler sampler(params, static_cast<int64_t>(n));
  TokenId largest = 0;
  for (int i = 0; i < 2000; ++i) {
    const TokenId id = sampler.sample(logits.data(), {});
    EXPECT_LT(id, 1500);  // of equal ones the lowest ids come first
    largest = std::max(largest, id);
  }
  EXPECT_GT(largest, 1400);
}

TEST(Sampler, the_same_seed_gives_the_same_tokens_and_another_seed_others) {
  const auto draws_of = [](uint64_t seed) {
    Sampler sampler({.seed = seed}, 200);
    std::vector<TokenId> ids;
    for (uint64_t i = 0; i < 30; ++i) {
      auto logits = random_logits(i, 200);
      ids.push_back(sampler.sample(logits.data(), ids));
    }
    return ids;
  };
  EXPECT_EQ(draws_of(1), draws_of(1));
  EXPECT_NE(draws_of(1), draws_of(2));
}

std::vector<float> penalised(const SamplingParams& params, std::vector<float> logits,
                             const std::vector<TokenId>& history) {
  SamplingParams p = params;
  p.temperature = 0;
  Sampler sampler(p, static_cast<int64_t>(logits.size()));
  const auto once = logits;
  sampler.sample(logits.data(), history);
  // What one call counted is forgotten by the next.
  auto again = once;
  sampler.sample(again.data(), history);
  EXPECT_EQ(again, logits);
  return logits;
}

TEST(Sampler, the_repetition_penalty_lowers_each_seen_token_once) {
  EXPECT_EQ(penalised({.repetition_penalty = 2}, {4, -4, 3, -3}, {0, 1, 1, 1, 0}),
            (std::vector<float>{2, -8, 3, -3}));
}

TEST(Sampler, the_frequency_penalty_counts_and_the_presence_penalty_does_not) {
  EXPECT_EQ(penalised({.frequency_penalty = 0.5}, {4, 4, 4}, {0, 1, 1, 1}),
            (std::vector<float>{3.5, 2.5, 4}));
  EXPECT_EQ(penalised({.presence_penalty = 0.5}, {4, 4, 4}, {0, 1, 1, 1}),
            (std::vector<float>{3.5, 3.5, 4}));
  EXPECT_EQ(penalised({.frequency_penalty = 1, .presence_penalty = -2}, {4, 4, 4}, {2, 2}),
            (std::vector<float>{4, 4, 4}));
}

TEST(Sampler, penalties_look_only_at_the_window) {
  EXPECT_EQ(penalised({.presence_penalty = 1, .penalty_window = 2}, {4, 4, 4, 4}, {0, 1, 2, 3}),
            (std::vector<float>{4, 4, 3, 3}));
  EXPECT_EQ(penalised({.presence_penalty = 1, .penalty_window = 0}, {4, 4}, {0, 1}),
            (std::vector<float>{4, 4}));
}

TEST(Sampler, an_infinitely_unlikely_token_is_never_drawn) {
  std::vector<float> logits(100, -std::numeric_limits<float>::infinity());
  logits[41] = 1, logits[42] = 1;
  Sampler sampler(kPlainDraw, 100);
  for (int i = 0; i < 200; ++i) {
    auto copy = logits;
    const TokenId id = sampler.sample(copy.data(), {});
    EXPECT_TRUE(id == 41 || id == 42) << id;
  }
}

}  // namespace
}  // namespace ridge
