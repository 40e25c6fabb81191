// SPDX-License-Identifier: Apache-2.0
#include "program/step_shape.h"

#include <gtest/gtest.h>

#include <set>

namespace ridge {
namespace {

KvTokens counted_one_by_one(const SequenceShape& s, int64_t window) {
  KvTokens tokens;
  std::set<int64_t> keys;
  for (int64_t p = s.cached; p < s.cached + s.new_rows; ++p)
    for (int64_t key = 0; key <= p; ++key)
      if (window == 0 || key > p - window) {
        ++tokens.attended;
        keys.insert(key);
      }
  tokens.unique = static_cast<int64_t>(keys.size());
  return tokens;
}

TEST(KvTokensOf, equals_counting_every_pair_for_all_small_shapes_and_windows) {
  for (int64_t cached = 0; cached <= 20; ++cached)
    for (int64_t n = 0; n <= 14; ++n)
      for (int64_t window = 0; window <= 40; ++window) {
        const SequenceShape s{n, cached, 0};
        const KvTokens got = kv_tokens_of(s, window), want = counted_one_by_one(s, window);
        ASSERT_EQ(got.attended, want.attended) << cached << " " << n << " " << window;
        ASSERT_EQ(got.unique, want.unique) << cached << " " << n << " " << window;
      }
}

TEST(KvTokensOf, a_chunk_that_extends_a_cache_sees_bottom_right_pairs) {
  EXPECT_EQ(kv_tokens_of({3, 5}, 0).attended, 21);                  // acceptance Q15.visible_t3_s8
  EXPECT_EQ(kv_tokens_of({512, 4096 - 512}, 0).attended, 1966336);  // Q15.prefill_chunk
}

TEST(StepShape, a_decode_batch_has_one_row_and_one_logit_row_per_sequence) {
  const StepShape shape = decode_shape(5, 100);
  EXPECT_EQ(shape.rows(), 5);
  EXPECT_EQ(shape.logit_rows(), 5);
  EXPECT_EQ(kv_tokens_of(shape.sequences[4], 0).unique, 100);
}

}  // namespace
}  // namespace ridge
