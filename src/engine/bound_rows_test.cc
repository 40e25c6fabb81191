// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "../../tests/test_session.h"
#include "engine/bound_op.h"

namespace ridge {
namespace {

TEST(BindHeads, ropes_share_a_table_only_if_their_angles_are_divided_alike) {
  const TestModel m(tiny_path("llama-llama3.gguf"));
  std::vector<Op> with_freqs, without;
  for (const Op& op : m.model->program().ops) {
    const auto* rope = std::get_if<Rope>(&op.body);
    if (rope == nullptr || !with_freqs.empty()) continue;
    ASSERT_TRUE(rope->use_freqs);
    with_freqs.push_back(op);
    without.push_back(op);
    std::get<Rope>(without[0].body).use_freqs = false;
  }
  ASSERT_EQ(with_freqs.size(), 1u);
  std::vector<RopeTable> tables;
  Binding binding{m.model->weights(), tables, 1};
  for (int i = 0; i < 2; ++i) {
    bind_heads(with_freqs, binding);
    bind_heads(without, binding);
  }
  ASSERT_EQ(tables.size(), 2u);
  for (RopeTable& table : tables) table.fill(0, 100);
  const int64_t last = tables[0].pairs() - 1;
  EXPECT_NE(tables[0].cos(0)[last], tables[1].cos(0)[last]);
}

}  // namespace
}  // namespace ridge
