// SPDX-License-Identifier: Apache-2.0
#include "model/weight_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "../../tests/gguf_writer.h"
#include "tensor/codec.h"

namespace ridge {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class WeightTableTest : public testing::Test {
 protected:
  WeightTableTest() {
    GgufWriter w;
    w.add_tensor("a.weight", {4, 3}, DType::f32, std::string(48, '\0'));
    w.add_tensor("b.weight", {5}, DType::f32, std::string(20, '\0'));
    w.add_tensor("rope_freqs.weight", {2}, DType::f32, std::string(8, '\0'));
    content_ = w.build();
    auto parsed = GgufFile::parse(std::as_bytes(std::span<const char>(content_)), "m.gguf");
    file_ = std::move(parsed).value();
  }
  std::string message_for(const std::vector<ExpectedWeight>& expected) const {
    const auto table = WeightTable::create(file_, expected);
    return table ? "accepted" : table.error().message;
  }

  std::string content_;
  GgufFile file_;
};

TEST_F(WeightTableTest, takes_exactly_the_expected_weights) {
  const auto table = WeightTable::create(file_, {{"a.weight", 3, 4}, {"b.weight", 1, 5}});
  ASSERT_TRUE(table) << table.error().message;
  EXPECT_EQ(&table->at("a.weight"), file_.find("a.weight"));
}

TEST_F(WeightTableTest, names_what_is_missing_extra_or_of_another_shape) {
  EXPECT_THAT(message_for({{"a.weight", 3, 4}, {"b.weight", 1, 5}, {"c.weight", 7, 8}}),
              AllOf(HasSubstr("'c.weight' is missing"), HasSubstr("7 x 8")));
  EXPECT_THAT(message_for({{"a.weight", 4, 3}, {"b.weight", 1, 5}}),
              HasSubstr("'a.weight' is 3 x 4, expected 4 x 3"));
  EXPECT_THAT(message_for({{"a.weight", 3, 4}}), HasSubstr("'b.weight' (1 x 5) is not one"));
}

TEST_F(WeightTableTest, an_unexpected_name_is_our_own_bug) {
  const auto table = WeightTable::create(file_, {{"a.weight", 3, 4}, {"b.weight", 1, 5}});
  ASSERT_TRUE(table);
  EXPECT_DEATH((void)table->at("c.weight"), "CHECK");
}

// Bytes of 6 rows of 2 blocks (or 6 x 2 floats) that decode to finite numbers.
struct Finite : testing::TestWithParam<int> {
  DType dtype = static_cast<DType>(GetParam());
  std::string data;
  GgufTensor tensor;

  Finite() {
    const BlockFormat block = block_format(dtype);
    data.assign(static_cast<size_t>(12 * block.bytes), '\x13');
    tensor.name = "t";
    tensor.view = {reinterpret_cast<const std::byte*>(data.data()), dtype, 6, 2 * block.elements};
  }
  // Whether the reference decoder gives a number that is not finite.
  bool decodes_to_finite() const {
    std::vector<float> values(static_cast<size_t>(tensor.view.rows * tensor.view.cols));
    decode(dtype, tensor.view.data, static_cast<int64_t>(values.size()), values.data());
    return std::all_of(values.begin(), values.end(), [](float v) { return std::isfinite(v); });
  }
};

TEST_P(Finite, agrees_with_the_decoder_wherever_two_bytes_are_all_ones) {
  ASSERT_TRUE(check_finite(tensor));
  int bad = 0;
  for (size_t at = 0; at + 2 <= data.size(); at += 2) {
    const std::string before = data;
    data[at] = data[at + 1] = '\xff';
    const bool good = decodes_to_finite();
    bad += good ? 0 : 1;
    EXPECT_EQ(check_finite(tensor).has_value(), good) << "byte " << at;
    data = before;
  }
  EXPECT_GE(bad, 12);  // every block has a place that matters
}

TEST_P(Finite, names_the_tensor_and_the_row_and_leaves_other_rows_alone) {
  const auto row_bytes = static_cast<size_t>(tensor.view.row_bytes());
  std::fill_n(data.begin() + static_cast<std::ptrdiff_t>(4 * row_bytes), row_bytes, '\xff');
  const Status status = check_finite(tensor);
  ASSERT_FALSE(status);
  EXPECT_THAT(status.error().message, AllOf(HasSubstr("'t'"), HasSubstr("row 4")));
  EXPECT_TRUE(check_finite(tensor, 0, 4));
  EXPECT_TRUE(check_finite(tensor, 5, 1));
  EXPECT_TRUE(check_finite(tensor, 4, 0));
  EXPECT_FALSE(check_finite(tensor, 4, 1));
  EXPECT_FALSE(check_finite(tensor, 3, 3));
}

INSTANTIATE_TEST_SUITE_P(EveryDType, Finite, testing::Range(0, kDTypeCount), [](const auto& info) {
  return std::string(name_of(static_cast<DType>(info.param)));
});

}  // namespace
}  // namespace ridge
