// SPDX-License-Identifier: Apache-2.0
#include "program/lower.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

namespace ridge {
namespace {

struct Published {
  const char* name;
  int64_t parameters;  // of the published checkpoint, a tied table once
  Architecture architecture;
  int64_t n_layers, d_model, n_heads, n_kv_heads, head_dim, d_ff, vocab_size;
  bool tied;
};

// Shapes: each repository's config.json. Counts: the total that Hugging Face shows for the
// checkpoint's safetensors (Qwen3-0.6B: less the copy of its tied table that the file carries).
constexpr Published kPublished[] = {
    {"Llama-3.1-8B", 8030261248, Architecture::llama, 32, 4096, 32, 8, 128, 14336, 128256, false},
    {"Llama-3.1-70B", 70553706496, Architecture::llama, 80, 8192, 64, 8, 128, 28672, 128256, false},
    {"Llama-3.2-1B", 1235814400, Architecture::llama, 16, 2048, 32, 8, 64, 8192, 128256, true},
    {"SmolLM2-135M", 134515008, Architecture::llama, 30, 576, 9, 3, 64, 1536, 49152, true},
    {"Qwen2.5-0.5B", 494032768, Architecture::qwen2, 24, 896, 14, 2, 64, 4864, 151936, true},
    {"Qwen2.5-7B", 7615616512, Architecture::qwen2, 28, 3584, 28, 4, 128, 18944, 152064, false},
    {"Qwen3-0.6B", 596049920, Architecture::qwen3, 28, 1024, 16, 8, 128, 3072, 151936, true},
    {"Qwen3-8B", 8190735360, Architecture::qwen3, 36, 4096, 32, 8, 128, 12288, 151936, false},
    {"Gemma-3-270m", 268098176, Architecture::gemma3, 18, 640, 4, 1, 256, 2048, 262144, true},
    {"Gemma-3-1B", 999885952, Architecture::gemma3, 26, 1152, 4, 1, 256, 6912, 262144, true},
};

ModelSpec spec_of(const Published& p) {
  ModelSpec spec{.name = p.name, .architecture = p.architecture};
  spec.n_layers = p.n_layers, spec.d_model = p.d_model, spec.n_heads = p.n_heads;
  spec.n_kv_heads = p.n_kv_heads, spec.head_dim = p.head_dim, spec.d_ff = p.d_ff;
  spec.vocab_size = p.vocab_size, spec.tied_embedding = p.tied;
  spec.qkv_bias = p.architecture == Architecture::qwen2;
  spec.rope.dims = spec.rope_local.dims = p.head_dim;
  return spec;
}

Program lowered(const ModelSpec& spec, Sharding sharding = {}) {
  auto program = lower(spec, sharding);
  CHECK(program.has_value());
  return *std::move(program);
}

template <class Body>
std::vector<Body> bodies(const Program& program) {
  std::vector<Body> found;
  for (const Op& op : program.ops)
    if (const auto* body = std::get_if<Body>(&op.body)) found.push_back(*body);
  return found;
}

TEST(Lower, published_parameter_counts_come_out_to_the_last_digit) {
  for (const Published& p : kPublished) {
    EXPECT_EQ(parameters_of(lowered(spec_of(p))), p.parameters) << p.name;
    EXPECT_EQ(parameters_of(fuse(lowered(spec_of(p)))), p.parameters) << p.name << ", fused";
  }
}

TEST(Lower, every_buffer_is_written_before_it_is_read_and_chip_only_buffers_are_not_read_later) {
  for (const Published& p : kPublished)
    for (const Program& program : {lowered(spec_of(p)), fuse(lowered(spec_of(p)))}) {
      std::vector<bool> is_made(kBufferCount, false);
      const auto at = [&](Buffer b) { return is_made[static_cast<size_t>(b)]; };
      const std::function<void(const Op&)> walk = [&](const Op& op) {
        if (const auto* fused = std::get_if<Fused>(&op.body)) {
          for (const Op& part : fused->parts) walk(part);
          for (const Buffer b : fused->internal) at(b) = false;
          return;
        }
        const auto* product = std::get_if<MatMul>(&op.body);
        const auto* norm = std::get_if<RmsNorm>(&op.body);
        const bool adds = (product && product->accumulate) || (norm && norm->accumulate) ||
                          std::holds_alternative<GatedAct>(op.body);
        if (!std::holds_alternative<Embed>(op.body)) {
          ASSERT_TRUE(at(op.in)) << op.stage;
        }
        if (adds) {
          ASSERT_TRUE(at(op.out)) << op.stage;
        }
        if (std::holds_alternative<Attention>(op.body)) {
          ASSERT_TRUE(at(Buffer::k) && at(Buffer::v));
        }
        at(op.out) = true;
      };
      for (const Op& op : program.ops) walk(op);
      EXPECT_TRUE(at(Buffer::logits));
    }
}

TEST(Lower, windowed_layers_have_the_window_and_a_rope_of_their_own) {
  ModelSpec spec = spec_of(kPublished[9]);
  spec.sliding_window = 512;
  for (int64_t i = 0; i < spec.n_layers; ++i) spec.windowed.push_back(i % 6 != 5);
  spec.rope.base = 1e6, spec.rope_local.base = 1e4;
  const Program program = lowered(spec);
  const auto attentions = bodies<Attention>(program);
  const auto ropes = bodies<Rope>(program);
  ASSERT_EQ(attentions.size(), 26u);
  ASSERT_EQ(ropes.size(), 52u);
  for (size_t i = 0; i < 26; ++i) {
    EXPECT_EQ(attentions[i].layer, static_cast<int64_t>(i));
    EXPECT_EQ(attentions[i].window, i % 6 == 5 ? 0 : 512);
    EXPECT_EQ(ropes[2 * i].rope.base, i % 6 == 5 ? 1e6 : 1e4);
    EXPECT_EQ(ropes[2 * i + 1].rope.base, i % 6 == 5 ? 1e6 : 1e4);
  }
  EXPECT_EQ(bodies<Embed>(program)[0].scale, std::sqrt(1152.0));
}

TEST(Lower, gemma_3_scales_queries_by_head_dim_but_its_27b_by_d_model_per_head) {
  EXPECT_EQ(bodies<Attention>(lowered(spec_of(kPublished[9])))[0].scale, 1 / std::sqrt(256.0));
  const ModelSpec of_27b =
      spec_of({"Gemma-3-27B", 0, Architecture::gemma3, 62, 5376, 32, 16, 128, 21504, 262208, true});
  EXPECT_EQ(bodies<Attention>(lowered(of_27b))[0].scale, 1 / std::sqrt(168.0));
}

TEST(Lower, a_weight_takes_the_dtype_that_its_file_lists_and_else_the_default) {
  ModelSpec spec = spec_of(kPublished[3]);
  spec.default_weight_dtype = DType::q4_1;
  spec.dtype_of_weight = {{"token_embd.weight", DType::q8_0}, {"output_norm.weight", DType::f16}};
  const Program program = lowered(spec);
  EXPECT_EQ(bodies<Embed>(program)[0].table.dtype, DType::q8_0);
  EXPECT_EQ(bodies<MatMul>(program)[0].weight.dtype, DType::q4_1);
  EXPECT_EQ(bodies<MatMul>(program).back().weight.dtype, DType::q8_0) << "the tied head";
  EXPECT_EQ(bodies<RmsNorm>(program)[0].gain.dtype, DType::f32);
  EXPECT_EQ(bodies<RmsNorm>(program).back().gain.dtype, DType::f16);
}

TEST(Lower, ranks_share_every_matrix_and_meet_twice_a_layer) {
  const ModelSpec spec = spec_of(kPublished[1]);
  const Program whole = lowered(spec), share = lowered(spec, {.tensor_parallel = 8});
  int64_t whole_parameters = 0, share_parameters = 0;
  for (const MatMul& m : bodies<MatMul>(whole)) whole_parameters += m.weight.parameters();
  for (const MatMul& m : bodies<MatMul>(share)) share_parameters += m.weight.parameters();
  EXPECT_EQ(share_parameters * 8, whole_parameters);
  EXPECT_EQ(bodies<AllReduce>(share).size(), 160u);
  EXPECT_TRUE(bodies<AllReduce>(whole).empty());
}

TEST(Lower, ranks_that_do_not_divide_the_heads_are_refused_with_both_numbers) {
  const auto program = lower(spec_of(kPublished[3]), {.tensor_parallel = 2});
  ASSERT_FALSE(program.has_value());
  EXPECT_EQ(program.error().code, ErrorCode::usage);
  EXPECT_NE(program.error().message.find("tensor parallel 2"), std::string::npos);
  EXPECT_NE(program.error().message.find("9 heads"), std::string::npos);
}

TEST(Fuse, a_llama_layer_becomes_six_ops_and_the_order_of_parts_is_kept) {
  const Program plain = lowered(spec_of(kPublished[3])), fused = fuse(plain);
  EXPECT_EQ(plain.ops.size(), 1 + 30 * 13 + 2u);
  EXPECT_EQ(fused.ops.size(), 1 + 30 * 6 + 2u);
  std::vector<std::string> flat, want;
  for (const Op& op : plain.ops) want.push_back(op.stage);
  for (const Op& op : fused.ops) {
    const auto* group = std::get_if<Fused>(&op.body);
    if (group == nullptr) {
      flat.push_back(op.stage);
      continue;
    }
    for (const Op& part : group->parts) flat.push_back(part.stage);
    EXPECT_EQ(op.in, group->parts.front().in);
    EXPECT_EQ(op.out, group->parts.back().out);
  }
  EXPECT_EQ(flat, want);
}

}  // namespace
}  // namespace ridge
