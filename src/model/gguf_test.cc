// SPDX-License-Identifier: Apache-2.0
#include "model/gguf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "../../tests/gguf_writer.h"

namespace ridge {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

// The bytes must outlive the file.
struct Parsed {
  std::string content;
  Result<GgufFile> file;

  explicit Parsed(const GgufWriter& writer)
      : content(writer.build()),
        file(GgufFile::parse(std::as_bytes(std::span<const char>(content)), "m.gguf")) {}
};

template <class T>
std::string message_of(const Result<T>& result) {
  return result.has_value() ? "accepted" : result.error().message;
}

GgufWriter one_of_each() {
  GgufWriter w;
  w.set("u8", uint8_t{200}).set("i8", int8_t{-5}).set("u16", uint16_t{60000});
  w.set("i16", int16_t{-300}).set("u32", uint32_t{4000000000}).set("i32", int32_t{-70000});
  w.set("f32", 0.5f).set("yes", true).set("text", "words").set("u64", ~uint64_t{0});
  w.set("i64", int64_t{-1} << 40).set("f64", 0.1);
  w.set_array("ints", std::vector<int32_t>{3, -4}).set_array("floats", std::vector<float>{0.25f});
  w.set_array("texts", std::vector<std::string>{"a", "", "a text longer than a small string"});
  w.set_raw("flags", GgufType::array,
            ByteSink().put(uint32_t{7}).put(uint64_t{2}).raw(std::string("\x01\0", 2)).bytes());
  return w;
}

TEST(Gguf, reads_a_value_of_each_type) {
  const Parsed parsed(one_of_each());
  ASSERT_TRUE(parsed.file) << message_of(parsed.file);
  const GgufFile& file = *parsed.file;
  EXPECT_EQ(*file.integer("u8"), 200);
  EXPECT_EQ(*file.integer("i8"), -5);
  EXPECT_EQ(*file.integer("u16"), 60000);
  EXPECT_EQ(*file.integer("i16"), -300);
  EXPECT_EQ(*file.integer("u32"), 4000000000);
  EXPECT_EQ(*file.integer("i32"), -70000);
  EXPECT_EQ(*file.integer("i64"), -(int64_t{1} << 40));
  EXPECT_EQ(*file.number("f32"), 0.5);
  EXPECT_EQ(*file.number("f64"), 0.1);
  EXPECT_EQ(*file.number("u8"), 200.0);
  EXPECT_EQ(*file.boolean("yes"), true);
  EXPECT_EQ(*file.string("text"), "words");
  const auto& metadata = file.metadata();
  EXPECT_EQ(metadata.at("ints"), GgufValue(std::vector<int64_t>{3, -4}));
  EXPECT_EQ(metadata.at("floats"), GgufValue(std::vector<double>{0.25}));
  EXPECT_EQ(metadata.at("flags"), GgufValue(std::vector<bool>{true, false}));
  EXPECT_THAT(std::get<std::vector<std::string>>(metadata.at("texts")),
              ElementsAre("a", "", "a text longer than a small string"));
}

TEST(Gguf, a_look_up_says_what_it_found_instead) {
  const Parsed parsed(one_of_each());
  ASSERT_TRUE(parsed.file);
  const GgufFile& file = *parsed.file;
  EXPECT_THAT(message_of(file.integer("none")),
              AllOf(HasSubstr("m.gguf"), HasSubstr("'none' is missing")));
  EXPECT_THAT(message_of(file.integer("f32")), HasSubstr("the number 0.5, expected an integer"));
  EXPECT_THAT(message_of(file.integer("u64")), HasSubstr("below 2^63"));
  EXPECT_THAT(message_of(file.integer("yes")), HasSubstr("is true, expected an integer"));
  EXPECT_THAT(message_of(file.number("text")), HasSubstr("the string 'words', expected a number"));
  EXPECT_THAT(message_of(file.string("ints")),
              HasSubstr("an array of integers, expected a string"));
  EXPECT_THAT(message_of(file.boolean("u8")), HasSubstr("the integer 200, expected true or false"));
}

TEST(Gguf, shows_tensors_with_their_bytes) {
  GgufWriter w;
  w.add_tensor("v", {3}, DType::f32, "abcdefghijkl");
  w.add_tensor("m", {32, 2, 5}, DType::q8_0, std::string(10 * 34, 'q'));
  const Parsed parsed(w);
  ASSERT_TRUE(parsed.file) << message_of(parsed.file);
  const GgufTensor* vector = parsed.file->find("v");
  ASSERT_NE(vector, nullptr);
  EXPECT_EQ(vector->view.rows, 1);
  EXPECT_EQ(vector->view.cols, 3);
  EXPECT_EQ(std::memcmp(vector->view.data, "abcdefghijkl", 12), 0);
  const GgufTensor* matrix = parsed.file->find("m");
  ASSERT_NE(matrix, nullptr);
  EXPECT_THAT(matrix->shape, ElementsAre(32, 2, 5));
  EXPECT_EQ(matrix->view.rows, 10);
  EXPECT_EQ(matrix->view.bytes(), 340);
  EXPECT_EQ(parsed.file->find("w"), nullptr);
}

TEST(Gguf, missing_files_and_directories_are_named) {
  EXPECT_THAT(message_of(GgufFile::open("/nonexistent.gguf")), HasSubstr("no such file"));
  EXPECT_THAT(message_of(GgufFile::open(testing::TempDir())), HasSubstr("is a directory"));
}

// A model of three parts with one tensor each, on disk.
class SplitGguf : public testing::Test {
 protected:
  void SetUp() override {
    stem_ = fmt::format("{}split_{}", testing::TempDir(), ::getpid());
    for (uint16_t i = 0; i < 3; ++i) {
      parts_[i].set("split.no", i).set("split.count", uint16_t{3});
      parts_[i].set("split.tensors.count", int32_t{3});
      parts_[i].add_tensor(fmt::format("t{}", i), {4}, DType::f32, std::string(16, "abc"[i]));
    }
    parts_[0].set("general.name", "whole");
    write();
  }
  void TearDown() override {
    for (int i = 1; i <= 3; ++i) ::unlink(path(i).c_str());
  }
  void write() {
    for (int i = 0; i < 3; ++i) parts_[i].write(path(i + 1));
  }
  std::string path(int number) const {
    return fmt::format("{}-{:05}-of-00003.gguf", stem_, number);
  }
  std::string open() const { return message_of(GgufFile::open(path(1))); }

  std::string stem_;
  GgufWriter parts_[3];
};

TEST_F(SplitGguf, opens_by_its_first_part) {
  const auto file = GgufFile::open(path(1));
  ASSERT_TRUE(file) << message_of(file);
  ASSERT_EQ(file->tensors().size(), 3u);
  for (int i = 0; i < 3; ++i) {
    const GgufTensor* tensor = file->find(fmt::format("t{}", i));
    ASSERT_NE(tensor, nullptr);
    EXPECT_EQ(static_cast<char>(*tensor->view.data), "abc"[i]);
    file->release(*tensor, 0, tensor->view.rows);
    EXPECT_EQ(static_cast<char>(*tensor->view.data), "abc"[i]);
  }
  EXPECT_EQ(*file->string("general.name"), "whole");
  size_t bytes = 0;
  for (const GgufWriter& part : parts_) bytes += part.build().size();
  EXPECT_EQ(file->file_bytes(), static_cast<int64_t>(bytes));
}

TEST_F(SplitGguf, opens_by_file_names_alone) {
  for (GgufWriter& part : parts_) {
    part.erase("split.no").erase("split.count").erase("split.tensors.count");
  }
  write();
  EXPECT_EQ(open(), "accepted");
  EXPECT_THAT(message_of(GgufFile::open(path(2))), HasSubstr("open its first part"));
}

TEST_F(SplitGguf, a_missing_part_is_named) {
  ::unlink(path(2).c_str());
  EXPECT_THAT(open(),
              AllOf(HasSubstr("part 2 of 3"), HasSubstr(path(2)), HasSubstr("no such file")));
}

TEST_F(SplitGguf, a_later_part_names_the_first) {
  EXPECT_THAT(message_of(GgufFile::open(path(3))),
              AllOf(HasSubstr("part 3"), HasSubstr("open its first part"), HasSubstr(path(1))));
}

TEST_F(SplitGguf, a_renamed_part_says_what_its_name_must_end_in) {
  const std::string renamed = stem_ + ".gguf";
  parts_[0].write(renamed);
  EXPECT_THAT(message_of(GgufFile::open(renamed)), HasSubstr("-00001-of-00003.gguf"));
  ::unlink(renamed.c_str());
}

TEST_F(SplitGguf, parts_that_contradict_each_other_are_refused) {
  parts_[1].set("split.no", uint16_t{2});
  write();
  EXPECT_THAT(open(), HasSubstr("split.no is 2"));
  parts_[1].set("split.no", uint16_t{1}).tensors[0].name = "t0";
  write();
  EXPECT_THAT(open(), HasSubstr("'t0' is in an earlier part"));
  parts_[1].tensors.clear();
  write();
  EXPECT_THAT(open(), HasSubstr("hold 2 tensors"));
  parts_[0].set("split.count", uint16_t{0});
  write();
  EXPECT_THAT(open(), HasSubstr("split.count is 0"));
}

TEST_F(SplitGguf, one_part_in_memory_is_not_a_model) {
  const Parsed parsed(parts_[0]);
  EXPECT_THAT(message_of(parsed.file), HasSubstr("one of 3 parts"));
}

}  // namespace
}  // namespace ridge
