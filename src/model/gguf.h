// Reads GGUF v2/v3 (little-endian), split files included, through mmap. Trusts nothing: every
// length is checked against the bytes that are left before anything is allocated.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/mapped_file.h"
#include "base/result.h"
#include "tensor/view.h"

namespace ridge {

// A metadata value. Integers of all widths are widened; arrays keep one element type.
using GgufValue = std::variant<uint64_t, int64_t, double, bool, std::string, std::vector<uint64_t>,
                               std::vector<int64_t>, std::vector<double>, std::vector<bool>,
                               std::vector<std::string>>;

struct GgufTensor {
  std::string name;
  std::vector<int64_t> shape;  // as stored: innermost (contiguous) dimension first
  TensorView view;             // rows = product of shape[1..]; data points into the mapping
};

class GgufFile {
 public:
  // `path` of a split model is its first part (-00001-of-0000N.gguf); the others are found beside
  // it. `path` "-"-free, a regular file.
  static Result<GgufFile> open(const std::string& path);
  // For tests and fuzzing: one file's bytes in memory (not copied, must outlive the object).
  static Result<GgufFile> parse(std::span<const std::byte> bytes, std::string name);

  const std::string& path() const { return path_; }
  int64_t file_bytes() const { return file_bytes_; }  // of all parts together
  const std::map<std::string, GgufValue, std::less<>>& metadata() const { return metadata_; }
  const std::vector<GgufTensor>& tensors() const { return tensors_; }
  const GgufTensor* find(std::string_view name) const;

  // Typed look-ups. Error: the key is missing, or holds another type (named in the sentence).
  Result<int64_t> integer(std::string_view key) const;  // any non-negative or signed integer type
  Result<double> number(std::string_view key) const;    // any number
  Result<std::string> string(std::string_view key) const;
  Result<bool> boolean(std::string_view key) const;
  bool has(std::string_view key) const;

  // Tells the kernel that the pages of some rows are no longer needed (after repacking).
  void release(const GgufTensor& tensor, int64_t first_row, int64_t row_count) const;

 private:
  static Result<GgufFile> parse_part(std::span<const std::byte> bytes, const std::string& name);
  Status append_part(const std::string& part_path, int64_t number, int64_t count);
  const GgufValue* value_of(std::string_view key) const;
  Error missing(std::string_view key) const;
  Error wrong_type(std::string_view key, std::string_view expected) const;

  std::string path_;
  int64_t file_bytes_ = 0;
  std::vector<MappedFile> files_;
  std::map<std::string, GgufValue, std::less<>> metadata_;
  std::vector<GgufTensor> tensors_;
  std::map<std::string, size_t, std::less<>> index_;
};

}  // namespace ridge
