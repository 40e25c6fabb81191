// The tiny random models in exact mode against transformers: every architecture and RoPE kind, all
// logits. And the same with one detail spoilt, which must not pass.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "engine/sampler.h"
#include "tests/golden_files.h"
#include "tests/test_session.h"

namespace ridge {
namespace {

class GoldenTiny : public testing::TestWithParam<std::string> {
 protected:
  nlohmann::json golden_ = read_golden("tiny/" + GetParam() + ".json");
  std::string path_ = tiny_path(GetParam() + ".gguf");
  std::vector<TokenId> ids_ = golden_["ids"];
  std::vector<float> last_ = golden_["last_logits"];
};

std::string name_of_case(const testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}
INSTANTIATE_TEST_SUITE_P(Golden, GoldenTiny, testing::ValuesIn(tiny_models()), name_of_case);

TEST_P(GoldenTiny, exact_logits_are_those_of_transformers_at_every_position) {
  TestModel m(path_, {.exact = true});
  const auto n = static_cast<int64_t>(ids_.size());
  const auto session = m.session({.isa = test_isa(), .prefill_chunk = n, .max_logit_rows = n});
  const auto vocab = static_cast<size_t>(m.vocab());
  const auto logits = all_logits(*session, ids_, ids_.size(), m.vocab());
  const double tolerance = rounding_tolerance(golden_, test_isa());
  const std::span<const float> all(logits);
  EXPECT_LE(largest_difference(all.last(vocab), last_), tolerance);
  for (size_t i = 0; i < ids_.size(); ++i) {
    const auto row = all.subspan(i * vocab, vocab);
    EXPECT_NEAR(log_sum_exp(row), golden_["logsumexp"][i].get<double>(), tolerance) << i;
    // Both logits of a near-tie may move by the tolerance.
    if (golden_["argmax_gaps"][i].get<double>() > 2 * tolerance) {
      EXPECT_EQ(greedy(row.data(), m.vocab()), golden_["argmax"][i].get<TokenId>()) << i;
    }
  }
  RecordProperty("share_of_tolerance",
                 std::to_string(largest_difference(all.last(vocab), last_) / tolerance));
}

TEST_P(GoldenTiny, greedy_text_is_that_of_transformers) {
  TestModel m(path_, {.exact = true});
  const auto session = m.session({.isa = test_isa(), .prefill_chunk = 16});
  const std::vector<TokenId> expected = golden_["greedy"];
  const auto out = generate(*session, ids_, greedy_options(static_cast<int64_t>(expected.size())));
  ASSERT_TRUE(out.has_value()) << out.error().message;
  EXPECT_EQ(out->tokens, expected);
}

TEST_P(GoldenTiny, texts_have_the_ids_of_hugging_face) {
  TestModel m(path_);
  for (const auto& item : golden_["tokenizer_cases"]) {
    const std::vector<TokenId> expected = item["ids"];
    EXPECT_EQ(m.model->tokenizer().encode(item["text"].get<std::string>()), expected)
        << item["text"];
  }
}

// Fast mode rounds activations to int8 and keeps the cache in f16, as llama.cpp does by default on
// the same file: it may lose as much as that does (twice, as 43 positions make a noisy mean).
TEST_P(GoldenTiny, fast_mode_loses_no_more_than_the_peer) {
  BareModel exact(path_, {}), fast(path_, {.exact = false});
  const double kl =
      mean_kl(exact.logits(ids_), fast.logits(ids_), static_cast<size_t>(exact.spec().vocab_size));
  EXPECT_LE(kl, 2 * golden_["peer"]["default_mean_kl"].get<double>());
  RecordProperty("mean_kl", std::to_string(kl));
}

TEST_P(GoldenTiny, exact_logits_of_this_isa_are_those_of_plain) {
  BareModel plain(path_, {.isa = Isa::plain}), here(path_, {});
  const auto a = plain.logits(ids_), b = here.logits(ids_);
  EXPECT_LE(largest_difference(a, b), rounding_tolerance(golden_, Isa::plain));
}

// int8 products are whole numbers, the same on every ISA; what differs is the order in which blocks
// are added. That moves an activation across a rounding border now and then, and each move makes
// more of them further on: at worst the two end as independent draws of the rounding noise, whose
// difference has twice its power.
TEST_P(GoldenTiny, fast_logits_of_this_isa_part_from_plain_by_no_more_than_rounding_noise) {
  BareModel exact(path_, {}), plain(path_, {.exact = false, .isa = Isa::plain}),
      here(path_, {.exact = false});
  const auto vocab = static_cast<size_t>(plain.spec().vocab_size);
  const auto reference = plain.logits(ids_);
  const double cost = mean_kl(exact.logits(ids_), reference, vocab);
  EXPECT_LE(mean_kl(reference, here.logits(ids_), vocab), 2 * cost);
}

// How far the last logits are from the oracle's, in tolerances, with `options`.
double tolerances_off(const std::string& model, const BareModel::Options& options) {
  const nlohmann::json golden = read_golden("tiny/" + model + ".json");
  const std::vector<TokenId> ids = golden["ids"];
  const std::vector<float> last = golden["last_logits"];
  BareModel bare(tiny_path(model + ".gguf"), options);
  const auto logits = bare.logits(ids);
  return largest_difference(std::span<const float>(logits).last(last.size()), last) /
         rounding_tolerance(golden, test_isa());
}

// The maker of the golden files measured that the details spoilt here move a logit by more than 1,
// thousands of tolerances: a hundred is far from passing by chance.
constexpr double kPlain = 1, kSpoilt = 100;

TEST(GoldenMutation, swapped_rope_pairs_are_seen_in_every_architecture) {
  for (const std::string& model : tiny_models()) {
    const auto swap = [](RopeSpec& rope) {
      rope.pairing =
          rope.pairing == RopePairing::adjacent ? RopePairing::half_split : RopePairing::adjacent;
    };
    EXPECT_LE(tolerances_off(model, {}), kPlain) << model;
    EXPECT_GT(tolerances_off(model, {.spoil_spec =
                                         [&](ModelSpec& spec) {
                                           swap(spec.rope);
                                           swap(spec.rope_local);
                                         }}),
              kSpoilt)
        << model;
  }
}

TEST(GoldenMutation, a_dropped_embedding_scale_is_seen) {
  const auto drop = [](Program& program) { std::get<Embed>(program.ops[0].body).scale = 1; };
  EXPECT_GT(tolerances_off("gemma3", {.spoil_program = drop}), kSpoilt);
}

TEST(GoldenMutation, a_window_off_by_one_is_seen) {
  for (const int64_t by : {-1, 1}) {
    const auto shift = [&](ModelSpec& spec) { spec.sliding_window += by; };
    EXPECT_GT(tolerances_off("gemma3", {.spoil_spec = shift}), kSpoilt) << by;
    EXPECT_GT(tolerances_off("gemma3-scaled", {.spoil_spec = shift}), kSpoilt) << by;
  }
}

TEST(GoldenMutation, the_global_rope_base_in_local_layers_is_seen) {
  const auto replace = [](ModelSpec& spec) { spec.rope_local.base = spec.rope.base; };
  EXPECT_GT(tolerances_off("gemma3", {.spoil_spec = replace}), kSpoilt);
}

TEST(GoldenMutation, an_ignored_rope_scaling_is_seen) {
  const auto ignore = [](ModelSpec& spec) { spec.rope.scaling = RopeScaling::none; };
  EXPECT_GT(tolerances_off("gemma3-scaled", {.spoil_spec = ignore}), kSpoilt);
  EXPECT_GT(tolerances_off("llama-linear", {.spoil_spec = ignore}), kSpoilt);
  const auto no_divisors = [](ModelSpec& spec) { spec.has_rope_freqs = false; };
  EXPECT_GT(tolerances_off("llama-llama3", {.spoil_spec = no_divisors}), kSpoilt);
}

TEST(GoldenMutation, a_wrong_order_of_windowed_layers_is_seen) {
  const auto turn = [](ModelSpec& spec) {
    std::rotate(spec.windowed.begin(), spec.windowed.begin() + 1, spec.windowed.end());
  };
  EXPECT_GT(tolerances_off("gemma3", {.spoil_spec = turn}), kSpoilt);
}

TEST(GoldenMutation, a_norm_epsilon_of_another_size_is_seen) {
  const auto shift = [](ModelSpec& spec) { spec.norm_epsilon *= 10; };
  for (const std::string& model : tiny_models())
    EXPECT_GT(tolerances_off(model, {.spoil_spec = shift}), 2 * kPlain) << model;
}

}  // namespace
}  // namespace ridge
