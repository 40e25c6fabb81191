// SPDX-License-Identifier: Apache-2.0
#include "base/mapped_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <vector>

namespace ridge {
namespace {

using testing::HasSubstr;

std::string write_temporary(const std::string& name, const std::string& content) {
  const std::string path = testing::TempDir() + "mapped_file_test_" + name;
  std::ofstream(path, std::ios::binary) << content;
  return path;
}

std::string message_of(const std::string& path) {
  const auto file = MappedFile::open(path);
  return file.has_value() ? "opened" : file.error().message;
}

TEST(MappedFile, shows_the_bytes_of_the_file) {
  const std::string path = write_temporary("bytes", "ridge");
  const auto file = MappedFile::open(path);
  ASSERT_TRUE(file.has_value());
  const auto bytes = file->bytes();
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()), "ridge");
}

TEST(MappedFile, a_moved_mapping_keeps_its_address) {
  auto file = MappedFile::open(write_temporary("moved", "abc"));
  ASSERT_TRUE(file.has_value());
  const std::byte* before = file->bytes().data();
  MappedFile moved = std::move(*file);
  EXPECT_EQ(moved.bytes().data(), before);
  EXPECT_EQ(file->bytes().size(), 0u);
  MappedFile assigned;
  assigned = std::move(moved);
  EXPECT_EQ(assigned.bytes().data(), before);
}

TEST(MappedFile, says_what_is_wrong_with_a_path) {
  EXPECT_THAT(message_of("/nonexistent/model.gguf"), HasSubstr("no such file"));
  EXPECT_THAT(message_of(testing::TempDir()), HasSubstr("is a directory"));
  EXPECT_THAT(message_of(write_temporary("empty", "")), HasSubstr("is empty"));
  EXPECT_THAT(message_of("/dev/null"), HasSubstr("is a device"));
  EXPECT_THAT(message_of(""), HasSubstr("not a file name"));
}

TEST(MappedFile, does_not_wait_for_the_writer_of_a_pipe) {
  const std::string path = testing::TempDir() + "mapped_file_test_pipe";
  ::unlink(path.c_str());
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_THAT(message_of(path), HasSubstr("is a pipe"));
  ::unlink(path.c_str());
}

// How many pages of the mapping this process holds in its page table.
size_t resident_pages(const MappedFile& file) {
  std::ifstream maps("/proc/self/smaps");
  const auto start = reinterpret_cast<uintptr_t>(file.bytes().data());
  std::string line;
  bool inside = false;
  while (std::getline(maps, line)) {
    uintptr_t first = 0, last = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &first, &last) == 2) inside = first == start;
    size_t kilobytes = 0;
    if (inside && std::sscanf(line.c_str(), "Rss: %zu kB", &kilobytes) == 1) {
      return kilobytes * 1024 / static_cast<size_t>(::sysconf(_SC_PAGESIZE));
    }
  }
  return SIZE_MAX;
}

TEST(MappedFile, released_pages_leave_the_process_and_read_back_unchanged) {
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  const auto file = MappedFile::open(write_temporary("release", std::string(8 * page + 5, 'x')));
  ASSERT_TRUE(file.has_value());
  const auto touch_all = [&] {
    size_t sum = 0;
    for (std::byte b : file->bytes()) sum += std::to_integer<size_t>(b);
    return sum;
  };
  const size_t sum = touch_all();
  ASSERT_EQ(resident_pages(*file), 9u);
  file->release(0, file->bytes().size());
  EXPECT_EQ(resident_pages(*file), 0u);
  EXPECT_EQ(touch_all(), sum);
  file->release(1, SIZE_MAX);         // a length beyond the file means up to its end
  file->release(SIZE_MAX, SIZE_MAX);  // an offset beyond the file means nothing
  file->release(page / 2, page);      // covers no whole page
  EXPECT_EQ(touch_all(), sum);
}

}  // namespace
}  // namespace ridge
