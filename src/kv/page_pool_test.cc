// SPDX-License-Identifier: Apache-2.0
#include "kv/page_pool.h"

#include <gtest/gtest.h>

#include "base/rng.h"
#include "kv/layout.h"

namespace ridge {
namespace {

TEST(PagePool, no_page_leaks_or_is_owned_twice_under_random_growth) {
  Rng rng(7);
  PagePool pool(37);
  {
    PageTable a(pool, 40 * kKvPageTokens), b(pool, 40 * kKvPageTokens);
    for (int step = 0; step < 2000; ++step) {
      PageTable& table = rng.below(2) == 0 ? a : b;
      const int64_t tokens = static_cast<int64_t>(rng.below(40 * kKvPageTokens));
      const int64_t before = table.size();
      if (tokens / kKvPageTokens >= before) {
        const bool fits = kv_pages_for(tokens) - before <= pool.n_free();
        EXPECT_EQ(table.grow_to(tokens), fits);
        if (!fits) {
          EXPECT_EQ(table.size(), before) << "a refused growth must change nothing";
        }
      } else {
        table.truncate(tokens);
      }
      pool.check_integrity();
      EXPECT_EQ(a.size() + b.size() + pool.n_free(), pool.n_pages());
    }
  }
  EXPECT_EQ(pool.n_free(), pool.n_pages());
}

TEST(PagePool, a_page_holds_sixty_four_tokens) {
  PagePool pool(3);
  PageTable table(pool, 3 * kKvPageTokens);
  EXPECT_TRUE(table.grow_to(kKvPageTokens));
  EXPECT_EQ(table.size(), 1);
  EXPECT_TRUE(table.grow_to(kKvPageTokens + 1));
  EXPECT_EQ(table.size(), 2);
  table.truncate(kKvPageTokens);
  EXPECT_EQ(table.size(), 1);
}

TEST(KvLayout, bytes_per_token_are_those_of_the_published_config) {
  ModelSpec llama{.n_layers = 32, .n_kv_heads = 8, .head_dim = 128, .kv_dtype = DType::f16};
  EXPECT_EQ(kv_bytes_per_token(llama), 131072);  // PHYSICS Q1: 131,072 B per token for the 8B
}

}  // namespace
}  // namespace ridge
