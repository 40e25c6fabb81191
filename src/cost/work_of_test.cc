// SPDX-License-Identifier: Apache-2.0
#include "cost/work_of.h"

#include <gtest/gtest.h>

#include <map>

#include "base/check.h"
#include "program/lower.h"

namespace ridge {
namespace {

ModelSpec spec_of(Architecture architecture) {
  ModelSpec spec{.architecture = architecture};
  spec.n_layers = 7, spec.d_model = 96, spec.n_heads = 6, spec.n_kv_heads = 2, spec.head_dim = 32;
  spec.d_ff = 160, spec.vocab_size = 130;
  spec.default_weight_dtype = DType::q4_1;
  spec.qkv_bias = architecture == Architecture::qwen2;
  spec.rope.dims = 24, spec.rope_local.dims = 20;
  if (architecture == Architecture::gemma3) {
    spec.sliding_window = 5;
    spec.windowed = {true, true, true, true, true, false, true};
  }
  return spec;
}

constexpr Architecture kArchitectures[] = {Architecture::llama, Architecture::qwen2,
                                           Architecture::qwen3, Architecture::gemma3};

Program lowered(const ModelSpec& spec) {
  auto program = lower(spec);
  CHECK(program.has_value());
  return *std::move(program);
}

std::vector<StepShape> shapes() {
  return {decode_shape(1, 1), decode_shape(3, 40), {{{17, 0, 1}}}, {{{9, 4, 0}, {1, 30, 1}}}};
}

TEST(WorkOf, fusing_keeps_flops_weights_and_cache_and_lowers_only_activations) {
  for (const Architecture a : kArchitectures)
    for (const StepShape& shape : shapes()) {
      const Program plain = lowered(spec_of(a));
      Work before = work_of(plain, shape), after = work_of(fuse(plain), shape);
      EXPECT_LT(after.activation_bytes, before.activation_bytes);
      before.activation_bytes = after.activation_bytes = Bytes(0);
      EXPECT_EQ(before, after);
    }
}

TEST(WorkOf, what_fusing_saves_is_the_traffic_of_the_buffers_that_stay_on_the_chip) {
  const ModelSpec spec = spec_of(Architecture::llama);
  const Program plain = lowered(spec);
  const StepShape shape = decode_shape(3, 40);
  const Bytes saved =
      work_of(plain, shape).activation_bytes - work_of(fuse(plain), shape).activation_bytes;
  // Per row and layer: a normed copy written once and read three and two times; gate written and
  // read; up written twice and read once where one write stays.
  const int64_t elements = spec.d_model * (1 + 3) + spec.d_model * (1 + 2) + spec.d_ff * (2 + 2);
  EXPECT_EQ(saved, Bytes(static_cast<double>(shape.rows() * spec.n_layers * elements * 4)));
}

TEST(WorkOf, divisors_of_angles_that_two_ropes_share_are_read_once_when_fused) {
  ModelSpec spec = spec_of(Architecture::llama);
  spec.has_rope_freqs = true;
  const Program plain = lowered(spec);
  const Bytes saved = work_of(plain, decode_shape(1, 9)).weight_bytes -
                      work_of(fuse(plain), decode_shape(1, 9)).weight_bytes;
  EXPECT_EQ(saved, Bytes(7 * 12 * 4));  // layers, pairs, f32
}

TEST(WorkOf, a_step_that_wants_no_logits_does_not_touch_the_head) {
  const Program program = lowered(spec_of(Architecture::llama));
  EXPECT_EQ(work_of(program.ops.back(), {{{5, 0, 0}}}), Work());
}

TEST(WorkOf, weights_are_read_once_for_any_batch_and_flops_grow_with_it) {
  const Program program = lowered(spec_of(Architecture::qwen3));
  for (const Op& op : program.ops) {
    const auto* product = std::get_if<MatMul>(&op.body);
    if (product == nullptr) continue;
    const Work one = work_of(op, decode_shape(1, 9)), ten = work_of(op, decode_shape(10, 9));
    EXPECT_EQ(one.weight_bytes, ten.weight_bytes);
    EXPECT_EQ(one.matmul_flops * 10, ten.matmul_flops);
  }
}

TEST(WorkOf, a_windowed_layer_stops_reading_more_at_its_window) {
  const Program program = lowered(spec_of(Architecture::gemma3));
  const auto kv_read = [&](int64_t layer, int64_t context) {
    for (const Op& op : program.ops)
      if (const auto* a = std::get_if<Attention>(&op.body); a != nullptr && a->layer == layer)
        return work_of(op, decode_shape(1, context)).kv_read_bytes;
    return Bytes(-1);
  };
  EXPECT_LT(kv_read(0, 4), kv_read(0, 5));
  EXPECT_EQ(kv_read(0, 5), kv_read(0, 500));
  EXPECT_EQ(kv_read(5, 5) * 100, kv_read(5, 500));
}

TEST(WorkKey, equal_keys_mean_equal_work_and_layers_share_them) {
  for (const Architecture a : kArchitectures)
    for (const Program& program : {lowered(spec_of(a)), fuse(lowered(spec_of(a)))}) {
      std::map<std::string, const Op*> first;
      for (const Op& op : program.ops) {
        const Op& other = *first.try_emplace(work_key(op), &op).first->second;
        for (const StepShape& shape : shapes())
          EXPECT_EQ(work_of(op, shape), work_of(other, shape)) << work_key(op);
      }
      EXPECT_LT(first.size(), 25u) << "of " << program.ops.size();
    }
}

TEST(WorkKey, whatever_changes_work_changes_the_key) {
  const auto key = [](OpBody body) { return work_key({"s", std::move(body)}); };
  const Weight w{"a", DType::q4_1, 32, 64};
  const std::string product = key(MatMul{.weight = w});
  EXPECT_EQ(product, key(MatMul{.weight = {"b", DType::q4_1, 32, 64}})) << "a name is not work";
  EXPECT_NE(product, key(MatMul{.weight = {"a", DType::q4_0, 32, 64}}));
  EXPECT_NE(product, key(MatMul{.weight = {"a", DType::q4_1, 64, 32}}));
  EXPECT_NE(product, key(MatMul{.weight = w, .has_bias = true}));
  EXPECT_NE(product, key(MatMul{.weight = w, .accumulate = true}));
  EXPECT_NE(product, key(MatMul{.weight = w, .logit_rows_only = true}));
  EXPECT_NE(key(Attention{.window = 5}), key(Attention{.window = 0}));
  EXPECT_NE(key(Attention{.kv_dtype = DType::f32}), key(Attention{.kv_dtype = DType::f16}));
  EXPECT_NE(key(RmsNorm{.gain = w, .groups = 2}), key(RmsNorm{.gain = w}));
  EXPECT_NE(key(RmsNorm{.gain = w, .accumulate = true}), key(RmsNorm{.gain = w}));
  EXPECT_NE(key(Fused{{{"p", GatedAct{.width = 8}}}, {}}),
            key(Fused{{{"p", GatedAct{.width = 8}}}, {Buffer::gate}}));
}

}  // namespace
}  // namespace ridge
