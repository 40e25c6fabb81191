// SPDX-License-Identifier: Apache-2.0
#include "program/print.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace ridge {
namespace {

TEST(Describe, a_matmul_names_its_buffers_weight_shape_and_dtype) {
  const Op op{"qkv", MatMul{.weight = {"blk.0.attn_q.weight", DType::q4_1, 576, 288}},
              Buffer::normed, Buffer::q};
  EXPECT_EQ(describe(op),
            "qkv        matmul     normed -> q           blk.0.attn_q.weight 576x288 Q4_1");
}

TEST(Describe, a_sum_into_a_buffer_looks_different_from_an_overwrite) {
  Op op{"attn_out", MatMul{.weight = {"w", DType::f32, 4, 8}, .accumulate = true}, Buffer::attended,
        Buffer::residual};
  EXPECT_NE(describe(op).find("attended +> residual"), std::string::npos);
}

TEST(Describe, each_kind_of_op_is_one_line_that_shows_what_changes_its_result) {
  const Weight gain{"g", DType::f32, 1, 32};
  const auto line = [](OpBody body) { return describe({"s", std::move(body)}); };
  EXPECT_NE(line(RmsNorm{gain, 1e-5, 9}).find("g 32 F32 on each of 9 heads"), std::string::npos);
  EXPECT_NE(line(Embed{{"t", DType::q8_0, 64, 32}, 24.5}).find("times 24.5"), std::string::npos);
  EXPECT_NE(line(Attention{.layer = 3, .window = 512}).find("window 512"), std::string::npos);
  EXPECT_NE(line(Rope{.rope = {.pairing = RopePairing::half_split}}).find("half-split"),
            std::string::npos);
  EXPECT_NE(line(GatedAct{GateFunction::gelu_tanh, 7}).find("gelu gate"), std::string::npos);
  EXPECT_NE(line(AllReduce{64, 8}).find("64 wide over 8 ranks"), std::string::npos);
  EXPECT_NE(line(AllReduce{64, 8}).find("residual -> residual"), std::string::npos);
  EXPECT_NE(line(AllReduce{64, 8, true}).find("residual +> residual"), std::string::npos);
  const std::string fused =
      line(Fused{{{"a", RmsNorm{gain}}, {"b", MatMul{.weight = gain}}}, {Buffer::normed}});
  EXPECT_NE(fused.find("rmsnorm (residual -> residual) g 32 F32; matmul"), std::string::npos);
  EXPECT_NE(fused.find("on chip: normed"), std::string::npos);
  EXPECT_EQ(fused.find('\n'), std::string::npos);
}

}  // namespace
}  // namespace ridge
