// SPDX-License-Identifier: Apache-2.0
#include "model/spec_from_gguf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "../../tests/gguf_writer.h"

namespace ridge {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Result<ModelSpec> spec_of(const GgufWriter& writer) {
  const std::string content = writer.build();
  const auto file = GgufFile::parse(std::as_bytes(std::span<const char>(content)), "m.gguf");
  EXPECT_TRUE(file) << file.error().message;
  if (!file) return file.error();
  return spec_from_gguf(*file);
}

std::string verdict(const GgufWriter& writer) {
  const auto spec = spec_of(writer);
  return spec ? "accepted" : spec.error().message;
}

template <class T>
std::string verdict_with(const std::string& key, const T& value,
                         Architecture architecture = Architecture::llama) {
  GgufWriter w = tiny_gguf(architecture);
  return verdict(w.set(key, value));
}

TEST(SpecFromGguf, reads_every_width_of_its_own) {
  const auto spec = spec_of(tiny_gguf(Architecture::llama));
  ASSERT_TRUE(spec) << spec.error().message;
  const TinyShape shape;
  EXPECT_EQ(spec->name, "tiny llama");
  EXPECT_EQ(spec->n_layers, shape.layers);
  EXPECT_EQ(spec->d_model, shape.d_model);
  EXPECT_EQ(spec->n_heads, shape.heads);
  EXPECT_EQ(spec->n_kv_heads, shape.kv_heads);
  EXPECT_EQ(spec->head_dim, shape.head_dim);
  EXPECT_EQ(spec->d_ff, shape.d_ff);
  EXPECT_EQ(spec->vocab_size, shape.vocab);
  EXPECT_EQ(spec->context_length, shape.context);
  EXPECT_FLOAT_EQ(static_cast<float>(spec->norm_epsilon), 1e-5f);
  EXPECT_TRUE(spec->tied_embedding);
  EXPECT_EQ(spec->rope.dims, shape.head_dim);
  EXPECT_EQ(spec->rope.base, 50000);
  EXPECT_EQ(spec->dtype_of_weight.at("blk.3.ffn_up.weight"), DType::f32);
  EXPECT_EQ(spec->dtype_of_weight.size(), 1 + 7 * 9 + 1u);
}

TEST(SpecFromGguf, each_architecture_has_its_own_traits) {
  const auto llama = spec_of(tiny_gguf(Architecture::llama));
  const auto qwen2 = spec_of(tiny_gguf(Architecture::qwen2));
  const auto qwen3 = spec_of(tiny_gguf(Architecture::qwen3));
  const auto gemma3 = spec_of(tiny_gguf(Architecture::gemma3));
  ASSERT_TRUE(llama && qwen2 && qwen3 && gemma3);
  EXPECT_EQ(llama->rope.pairing, RopePairing::adjacent);
  for (const auto* spec : {&qwen2, &qwen3, &gemma3}) {
    EXPECT_EQ((*spec)->rope.pairing, RopePairing::half_split);
    EXPECT_EQ((*spec)->rope_local.pairing, RopePairing::half_split);
  }
  EXPECT_TRUE(qwen2->qkv_bias);
  EXPECT_FALSE(llama->qkv_bias || qwen3->qkv_bias || gemma3->qkv_bias);
  EXPECT_EQ(llama->sliding_window, 0);
  EXPECT_FALSE(llama->is_windowed(0));
}

TEST(SpecFromGguf, gemma3_takes_the_published_pattern_where_the_file_has_none) {
  const auto spec = spec_of(tiny_gguf(Architecture::gemma3));
  ASSERT_TRUE(spec) << spec.error().message;
  EXPECT_EQ(spec->sliding_window, 10);
  EXPECT_THAT(spec->windowed, ElementsAre(true, true, true, true, true, false, true));
  EXPECT_EQ(spec->rope.base, 50000);
  EXPECT_EQ(spec->rope_local.base, 10000);
}

TEST(SpecFromGguf, gemma3_keys_of_the_file_win_over_the_published_pattern) {
  GgufWriter w = tiny_gguf(Architecture::gemma3);
  w.set("gemma3.attention.sliding_window_pattern", uint32_t{3});
  w.set("gemma3.rope.local.freq_base", 777.0f);
  w.set("gemma3.rope.scaling.type", "linear").set("gemma3.rope.scaling.factor", 8.0f);
  const auto spec = spec_of(w);
  ASSERT_TRUE(spec) << spec.error().message;
  EXPECT_THAT(spec->windowed, ElementsAre(true, true, false, true, true, false, true));
  EXPECT_EQ(spec->rope_local.base, 777);
  EXPECT_EQ(spec->rope.factor, 8);
  EXPECT_EQ(spec->rope_local.scaling, RopeScaling::none);  // only full layers are stretched
  EXPECT_EQ(spec->rope_local.factor, 1);
}

TEST(SpecFromGguf, gemma3_takes_one_flag_for_each_layer) {
  const auto flags = [](const std::string& bytes) {
    const auto count = static_cast<uint64_t>(bytes.size());
    GgufWriter w = tiny_gguf(Architecture::gemma3);
    return w.set_raw("gemma3.attention.sliding_window_pattern", GgufType::array,
                     ByteSink().put(uint32_t{7}).put(count).raw(bytes).bytes());
  };
  const auto spec = spec_of(flags(std::string("\0\1\0\0\1\1\0", 7)));
  ASSERT_TRUE(spec) << spec.error().message;
  EXPECT_THAT(spec->windowed, ElementsAre(false, true, false, false, true, true, false));
  EXPECT_THAT(verdict(flags("\1\1")), HasSubstr("has 2 elements"));
}

TEST(SpecFromGguf, an_unknown_architecture_is_told_what_is_supported) {
  EXPECT_THAT(verdict_with("general.architecture", "mamba"),
              HasSubstr("'mamba' is not supported; supported are llama, qwen2, qwen3, gemma3"));
  EXPECT_THAT(verdict_with("general.type", "adapter"), HasSubstr("'adapter'"));
}

TEST(SpecFromGguf, every_required_key_is_missed_by_name) {
  for (const GgufWriter::Pair& pair : tiny_gguf(Architecture::gemma3).pairs) {
    const bool optional = pair.key.starts_with("tokenizer") || pair.key == "general.name" ||
                          pair.key.ends_with("dimension_count") ||
                          pair.key.ends_with("value_length") || pair.key.ends_with("head_count_kv");
    GgufWriter w = tiny_gguf(Architecture::gemma3);
    const std::string found = verdict(w.erase(pair.key));
    if (pair.key.ends_with("key_length")) {
      EXPECT_THAT(found, HasSubstr("values 6"));  // keys default to 20 / 4
    } else {
      EXPECT_THAT(found, HasSubstr(optional ? "accepted" : pair.key + "' is missing"));
    }
  }
}

TEST(SpecFromGguf, every_integer_is_refused_at_zero_at_the_maximum_and_below_zero) {
  for (const char* suffix :
       {"block_count", "context_length", "embedding_length", "feed_forward_length",
        "attention.head_count", "attention.head_count_kv", "attention.key_length",
        "attention.value_length", "rope.dimension_count", "vocab_size", "attention.sliding_window",
        "attention.sliding_window_pattern"}) {
    const std::string key = fmt::format("gemma3.{}", suffix);
    for (uint64_t value : {uint64_t{0}, uint64_t{UINT32_MAX}, uint64_t{INT64_MAX}, ~uint64_t{0}}) {
      EXPECT_THAT(verdict_with(key, value, Architecture::gemma3), HasSubstr(key)) << value;
    }
    EXPECT_THAT(verdict_with(key, int32_t{-1}, Architecture::gemma3), HasSubstr("is -1"));
  }
}

TEST(SpecFromGguf, every_integer_at_one_is_accepted_or_contradicts_the_others) {
  const auto one = [](const std::string& suffix) {
    return verdict_with(fmt::format("llama.{}", suffix), uint32_t{1});
  };
  EXPECT_EQ(one("block_count"), "accepted");
  EXPECT_EQ(one("context_length"), "accepted");
  EXPECT_EQ(one("feed_forward_length"), "accepted");
  EXPECT_EQ(one("attention.head_count_kv"), "accepted");
  EXPECT_THAT(one("attention.head_count"), HasSubstr("head_count_kv"));
  EXPECT_THAT(one("embedding_length"), HasSubstr("'token_embd.weight' is 50 x 20"));
  EXPECT_THAT(one("attention.key_length"), HasSubstr("keys have 1 elements and values 6"));
  EXPECT_THAT(one("rope.dimension_count"), HasSubstr("even number"));
  EXPECT_THAT(one("vocab_size"), HasSubstr("50 rows"));
}

TEST(SpecFromGguf, heads_that_do_not_fit_together_are_refused) {
  EXPECT_THAT(verdict_with("llama.attention.head_count_kv", uint32_t{3}), HasSubstr("evenly"));
  EXPECT_THAT(verdict_with("llama.attention.head_count_kv", uint32_t{8}), HasSubstr("1 to 4"));
  EXPECT_THAT(verdict_with("llama.rope.dimension_count", uint32_t{8}), HasSubstr("1 to 6"));
  GgufWriter odd = tiny_gguf(Architecture::llama);
  odd.set("llama.attention.key_length", uint32_t{5});
  odd.set("llama.attention.value_length", uint32_t{5});
  EXPECT_THAT(verdict(odd), HasSubstr("even number"));
  GgufWriter uneven = tiny_gguf(Architecture::llama);
  uneven.erase("llama.attention.key_length").set("llama.attention.head_count", uint32_t{6});
  EXPECT_THAT(verdict(uneven), HasSubstr("not a multiple of 6 heads"));
}

TEST(SpecFromGguf, widths_past_those_of_the_matmul_kernels_are_refused) {
  constexpr uint32_t kWidest = 1 << 18;  // kernels/matmul_test.cc multiplies rows of as many
  EXPECT_EQ(verdict_with("llama.feed_forward_length", kWidest), "accepted");
  EXPECT_THAT(verdict_with("llama.feed_forward_length", kWidest + 1),
              HasSubstr("'llama.feed_forward_length' is 262145, expected 1 to 262144"));
  EXPECT_THAT(verdict_with("llama.embedding_length", kWidest + 256),
              HasSubstr("'llama.embedding_length' is 262400, expected 1 to 262144"));
  EXPECT_THAT(verdict_with("llama.embedding_length", kWidest), HasSubstr("50 x 20"));
  const auto heads = [](uint32_t count) {
    GgufWriter w = tiny_gguf(Architecture::llama);
    w.set("llama.attention.key_length", uint32_t{4096});
    w.set("llama.attention.value_length", uint32_t{4096});
    return verdict(w.set("llama.attention.head_count", count));
  };
  EXPECT_EQ(heads(64), "accepted");
  EXPECT_THAT(heads(66), HasSubstr("4096 elements and there are 66 heads"));
}

TEST(SpecFromGguf, arrays_for_layers_are_accepted_only_if_all_layers_are_alike) {
  GgufWriter w = tiny_gguf(Architecture::llama);
  w.set_array("llama.attention.head_count_kv", std::vector<uint32_t>(7, 2));
  w.set_array("llama.feed_forward_length", std::vector<int32_t>(7, 36));
  const auto spec = spec_of(w);
  ASSERT_TRUE(spec) << spec.error().message;
  EXPECT_EQ(spec->n_kv_heads, 2);
  w.set_array("llama.attention.head_count_kv", std::vector<uint32_t>{2, 2, 1, 2, 2, 2, 2});
  EXPECT_THAT(verdict(w), HasSubstr("differs from layer to layer"));
  w.set_array("llama.attention.head_count_kv", std::vector<uint32_t>{});
  EXPECT_THAT(verdict(w), HasSubstr("head_count_kv"));
}

TEST(SpecFromGguf, numbers_that_are_not_finite_or_not_positive_are_refused) {
  using Limits = std::numeric_limits<float>;
  for (const char* key : {"llama.attention.layer_norm_rms_epsilon", "llama.rope.freq_base",
                          "llama.rope.scaling.factor"}) {
    for (float value : {0.0f, -1.0f, Limits::infinity(), Limits::quiet_NaN(), Limits::max()}) {
      EXPECT_THAT(verdict_with(key, value), HasSubstr(key)) << value;
    }
  }
}

TEST(SpecFromGguf, the_tokenizer_and_the_embedding_must_agree) {
  GgufWriter w = tiny_gguf(Architecture::llama);
  w.set_array("tokenizer.ggml.tokens", std::vector<std::string>(49, "t"));
  EXPECT_THAT(verdict(w), HasSubstr("49 tokens, but tensor 'token_embd.weight' has 50 rows"));
  w.erase_tensor("token_embd.weight");
  EXPECT_THAT(verdict(w), HasSubstr("'token_embd.weight' is missing"));
}

TEST(SpecFromGguf, a_head_of_its_own_is_not_tied) {
  GgufWriter w = tiny_gguf(Architecture::llama);
  w.add_tensor("output.weight", {20, 50}, DType::f32, std::string(4000, '\0'));
  const auto spec = spec_of(w);
  ASSERT_TRUE(spec);
  EXPECT_FALSE(spec->tied_embedding);
}

TEST(SpecFromGguf, linear_rope_scaling_carries_its_factor) {
  GgufWriter w = tiny_gguf(Architecture::llama);
  w.set("llama.rope.scaling.factor", 4.0f);
  for (int with_type = 0; with_type < 2; ++with_type) {
    if (with_type == 1) w.set("llama.rope.scaling.type", "linear");
    const auto spec = spec_of(w);
    ASSERT_TRUE(spec) << spec.error().message;
    EXPECT_EQ(spec->rope.scaling, RopeScaling::linear);
    EXPECT_EQ(spec->rope.factor, 4);
  }
  w.set("llama.rope.scaling.type", "none");
  EXPECT_EQ(spec_of(w)->rope.scaling, RopeScaling::none);
  w.set("llama.rope.scaling.type", "yarn");
  EXPECT_THAT(verdict(w), HasSubstr("RoPE scaling 'yarn'"));
  w.set("llama.rope.scaling.type", "linear").erase("llama.rope.scaling.factor");
  EXPECT_THAT(verdict(w), HasSubstr("'llama.rope.scaling.factor' is missing"));
}

GgufWriter with_rope_freqs(Architecture architecture, std::vector<float> divisors) {
  ByteSink sink;
  for (float divisor : divisors) sink.put(divisor);
  GgufWriter w = tiny_gguf(architecture);
  return w.add_tensor("rope_freqs.weight", {divisors.size()}, DType::f32, sink.bytes());
}

TEST(SpecFromGguf, llama3_rope_scaling_stands_in_a_tensor) {
  const auto spec = spec_of(with_rope_freqs(Architecture::llama, {1, 2, 8}));
  ASSERT_TRUE(spec) << spec.error().message;
  EXPECT_EQ(spec->rope.scaling, RopeScaling::llama3);
  EXPECT_TRUE(spec->has_rope_freqs);
  EXPECT_THAT(verdict(with_rope_freqs(Architecture::llama, {1, 2})), HasSubstr("expected 1 x 3"));
  EXPECT_THAT(verdict(with_rope_freqs(Architecture::llama, {1, 0, 8})), HasSubstr("above 0"));
  EXPECT_THAT(verdict(with_rope_freqs(Architecture::qwen2, {1, 2, 8})),
              HasSubstr("only for llama"));
}

TEST(SpecFromGguf, keys_that_change_the_forward_pass_are_refused_and_never_ignored) {
  EXPECT_THAT(verdict_with("llama.expert_count", uint32_t{8}), HasSubstr("mixture of experts"));
  EXPECT_EQ(verdict_with("llama.expert_count", uint32_t{0}), "accepted");
  EXPECT_THAT(verdict_with("llama.logit_scale", 0.5f), HasSubstr("different forward pass"));
  EXPECT_THAT(verdict_with("gemma3.final_logit_softcapping", 30.0f, Architecture::gemma3),
              HasSubstr("final_logit_softcapping"));
  EXPECT_THAT(verdict_with("llama.attention.causal", false), HasSubstr("not causal"));
  EXPECT_THAT(verdict_with("llama.attention.sliding_window", uint32_t{64}),
              HasSubstr("for gemma3 only"));
  EXPECT_EQ(verdict_with("llama.attention.sliding_window", uint32_t{128}), "accepted");
}

}  // namespace
}  // namespace ridge
