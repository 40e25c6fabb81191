// SPDX-License-Identifier: Apache-2.0
#include "base/aligned_buffer.h"

#include <gtest/gtest.h>

#include <utility>

namespace ridge {
namespace {

TEST(AlignedBuffer, every_size_is_zeroed_aligned_and_writable_to_its_last_byte) {
  for (size_t bytes : {size_t{1}, size_t{63}, size_t{64}, size_t{65}, size_t{4097},
                       (size_t{256} << 10) - 1, size_t{256} << 10, (size_t{256} << 10) + 1,
                       (size_t{2} << 20) - 1, size_t{2} << 20, (size_t{5} << 20) + 123}) {
    AlignedBuffer buffer(bytes);
    ASSERT_EQ(buffer.size(), bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % 64, 0u) << bytes;
    if (bytes >= size_t{256} << 10) {
      EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % 4096, 0u) << bytes;
    }
    if (bytes >= size_t{2} << 20) {
      EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % (size_t{2} << 20), 0u) << bytes;
    }
    for (size_t i = 0; i < bytes; i += i + 100 < bytes ? 100 : 1) {
      ASSERT_EQ(buffer.data()[i], std::byte{0}) << i << " of " << bytes;
      buffer.data()[i] = std::byte{0xff};
    }
  }
}

TEST(AlignedBuffer, reused_heap_memory_is_zeroed_again) {
  for (int round = 0; round < 3; ++round) {
    AlignedBuffer buffer(1000);
    for (size_t i = 0; i < buffer.size(); ++i) {
      ASSERT_EQ(buffer.data()[i], std::byte{0});
      buffer.data()[i] = std::byte{0xff};
    }
  }
}

TEST(AlignedBuffer, moving_leaves_an_empty_one_behind_and_frees_the_target) {
  for (size_t bytes : {size_t{100}, size_t{3} << 20}) {
    AlignedBuffer a(bytes);
    a.data()[7] = std::byte{42};
    AlignedBuffer b(std::move(a));
    EXPECT_EQ(a.data(), nullptr);
    EXPECT_EQ(a.size(), 0u);
    AlignedBuffer c(bytes);
    c = std::move(b);
    EXPECT_EQ(b.data(), nullptr);
    EXPECT_EQ(c.size(), bytes);
    EXPECT_EQ(c.data()[7], std::byte{42});
    AlignedBuffer& same = c;
    c = std::move(same);
    EXPECT_EQ(c.data()[7], std::byte{42});
  }
}

TEST(AlignedBuffer, an_empty_one_has_no_memory) {
  EXPECT_EQ(AlignedBuffer().data(), nullptr);
  EXPECT_EQ(AlignedBuffer(0).data(), nullptr);
}

}  // namespace
}  // namespace ridge
