// Split models and typed look-ups; the bytes of one file are gguf_reader's.
// SPDX-License-Identifier: Apache-2.0
#include "model/gguf.h"

#include <fmt/format.h>

#include <limits>
#include <optional>

#include "model/gguf_reader.h"
#include "model/quote.h"

namespace ridge {
namespace {

constexpr std::string_view kSplitNo = "split.no";
constexpr std::string_view kSplitCount = "split.count";
constexpr std::string_view kSplitTensors = "split.tensors.count";

// The place in a split model that a file name ending in -00001-of-0000N.gguf claims.
struct SplitName {
  std::string stem;
  int64_t number = 1, count = 1;  // number counts from 1

  std::string part(int64_t n) const {
    return fmt::format("{}-{:05}-of-{:05}.gguf", stem, n, count);
  }
};

std::optional<int64_t> five_digits(std::string_view text) {
  int64_t value = 0;
  for (char c : text.substr(0, 5)) {
    if (c < '0' || c > '9') return std::nullopt;
    value = 10 * value + (c - '0');
  }
  return value;
}

std::optional<SplitName> split_name_of(std::string_view path) {
  constexpr std::string_view kShape = "-00000-of-00000.gguf";
  if (path.size() <= kShape.size()) return std::nullopt;
  const std::string_view tail = path.substr(path.size() - kShape.size());
  if (tail[0] != '-' || tail.substr(6, 4) != "-of-" || tail.substr(15) != ".gguf") {
    return std::nullopt;
  }
  const auto number = five_digits(tail.substr(1));
  const auto count = five_digits(tail.substr(10));
  if (!number || !count || *number < 1 || *number > *count) return std::nullopt;
  return SplitName{std::string(path.substr(0, path.size() - kShape.size())), *number, *count};
}

// What a value is, for "found ..." in messages.
struct Describe {
  std::string operator()(uint64_t v) const { return fmt::format("the integer {}", v); }
  std::string operator()(int64_t v) const { return fmt::format("the integer {}", v); }
  std::string operator()(double v) const { return fmt::format("the number {}", v); }
  std::string operator()(bool v) const { return v ? "true" : "false"; }
  std::string operator()(const std::string& v) const {
    return fmt::format("the string {}", quoted(v));
  }
  std::string operator()(const std::vector<uint64_t>&) const { return "an array of integers"; }
  std::string operator()(const std::vector<int64_t>&) const { return "an array of integers"; }
  std::string operator()(const std::vector<double>&) const { return "an array of numbers"; }
  std::string operator()(const std::vector<bool>&) const { return "an array of booleans"; }
  std::string operator()(const std::vector<std::string>&) const { return "an array of strings"; }
};

}  // namespace

Result<GgufFile> GgufFile::parse_part(std::span<const std::byte> bytes, const std::string& name) {
  RIDGE_TRY(GgufPart part, read_gguf_part(bytes, name));
  GgufFile file;
  file.path_ = name;
  file.file_bytes_ = static_cast<int64_t>(bytes.size());
  file.metadata_ = std::move(part.metadata);
  file.tensors_ = std::move(part.tensors);
  for (size_t i = 0; i < file.tensors_.size(); ++i) file.index_.emplace(file.tensors_[i].name, i);
  return file;
}

Result<GgufFile> GgufFile::parse(std::span<const std::byte> bytes, std::string name) {
  RIDGE_TRY(GgufFile file, parse_part(bytes, name));
  if (file.has(kSplitCount)) {
    RIDGE_TRY(const int64_t count, file.integer(kSplitCount));
    if (count != 1) {
      return Error{ErrorCode::invalid_input,
                   fmt::format("{}: one of {} parts of a split model, in memory", name, count)};
    }
  }
  return file;
}

Result<GgufFile> GgufFile::open(const std::string& path) {
  RIDGE_TRY(MappedFile mapped, MappedFile::open(path));
  RIDGE_TRY(GgufFile file, parse_part(mapped.bytes(), path));
  file.files_.push_back(std::move(mapped));

  const auto refuse = [&](std::string why) {
    return Error{ErrorCode::invalid_input, path + ": " + std::move(why)};
  };
  const auto name = split_name_of(path);
  int64_t number = name ? name->number : 1, count = name ? name->count : 1;
  if (file.has(kSplitCount)) {
    RIDGE_TRY(count, file.integer(kSplitCount));
    RIDGE_TRY(number, file.integer(kSplitNo));
    if (count < 1 || number < 0 || number >= count) {
      return refuse(fmt::format("split.no is {} and split.count is {}", number, count));
    }
    ++number;
  }
  if (count == 1 && !(name && name->count > 1)) return file;
  if (!name || name->count != count || name->number != number) {
    return refuse(
        fmt::format("the file says it is part {} of {}, so its name must end in "
                    "-{:05}-of-{:05}.gguf: it was renamed, and the other parts cannot be found",
                    number, count, number, count));
  }
  if (number != 1) {
    return refuse(fmt::format("this is part {} of a split model: open its first part, {}", number,
                              name->part(1)));
  }
  for (int64_t n = 2; n <= count; ++n) {
    RIDGE_RETURN_IF_ERROR(file.append_part(name->part(n), n, count));
  }
  if (file.has(kSplitTensors)) {
    RIDGE_TRY(const int64_t expected, file.integer(kSplitTensors));
    if (expected != static_cast<int64_t>(file.tensors_.size())) {
      return refuse(fmt::format("split.tensors.count is {}, but the {} parts hold {} tensors",
                                expected, count, file.tensors_.size()));
    }
  }
  return file;
}

Status GgufFile::append_part(const std::string& part_path, int64_t number, int64_t count) {
  auto mapped = MappedFile::open(part_path);
  if (!mapped) {
    return Error{mapped.error().code,
                 fmt::format("part {} of {} of the split model cannot be read: {}", number, count,
                             mapped.error().message)};
  }
  RIDGE_TRY(GgufFile part, parse_part(mapped->bytes(), part_path));
  if (part.has(kSplitCount)) {
    RIDGE_TRY(const int64_t found_count, part.integer(kSplitCount));
    RIDGE_TRY(const int64_t found_no, part.integer(kSplitNo));
    if (found_count != count || found_no != number - 1) {
      return Error{ErrorCode::invalid_input,
                   fmt::format("{}: split.no is {} and split.count is {}, expected {} and {}",
                               part_path, found_no, found_count, number - 1, count)};
    }
  }
  for (GgufTensor& tensor : part.tensors_) {
    if (!index_.emplace(tensor.name, tensors_.size()).second) {
      return Error{ErrorCode::invalid_input, fmt::format("{}: tensor {} is in an earlier part too",
                                                         part_path, quoted(tensor.name))};
    }
    tensors_.push_back(std::move(tensor));
  }
  file_bytes_ += part.file_bytes_;
  files_.push_back(std::move(*mapped));
  return {};
}

const GgufTensor* GgufFile::find(std::string_view name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &tensors_[found->second];
}

const GgufValue* GgufFile::value_of(std::string_view key) const {
  const auto found = metadata_.find(key);
  return found == metadata_.end() ? nullptr : &found->second;
}

bool GgufFile::has(std::string_view key) const { return value_of(key) != nullptr; }

Error GgufFile::missing(std::string_view key) const {
  return {ErrorCode::invalid_input, fmt::format("{}: metadata key '{}' is missing", path_, key)};
}

Error GgufFile::wrong_type(std::string_view key, std::string_view expected) const {
  return {ErrorCode::invalid_input,
          fmt::format("{}: metadata key '{}' is {}, expected {}", path_, key,
                      std::visit(Describe{}, *value_of(key)), expected)};
}

Result<int64_t> GgufFile::integer(std::string_view key) const {
  const GgufValue* value = value_of(key);
  if (value == nullptr) return missing(key);
  if (const auto* i = std::get_if<int64_t>(value)) return *i;
  const auto* u = std::get_if<uint64_t>(value);
  if (u == nullptr) return wrong_type(key, "an integer");
  if (*u > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
    return wrong_type(key, "an integer below 2^63");
  }
  return static_cast<int64_t>(*u);
}

Result<double> GgufFile::number(std::string_view key) const {
  const GgufValue* value = value_of(key);
  if (value == nullptr) return missing(key);
  if (const auto* d = std::get_if<double>(value)) return *d;
  if (const auto* i = std::get_if<int64_t>(value)) return static_cast<double>(*i);
  if (const auto* u = std::get_if<uint64_t>(value)) return static_cast<double>(*u);
  return wrong_type(key, "a number");
}

Result<std::string> GgufFile::string(std::string_view key) const {
  const GgufValue* value = value_of(key);
  if (value == nullptr) return missing(key);
  if (const auto* s = std::get_if<std::string>(value)) return *s;
  return wrong_type(key, "a string");
}

Result<bool> GgufFile::boolean(std::string_view key) const {
  const GgufValue* value = value_of(key);
  if (value == nullptr) return missing(key);
  if (const auto* b = std::get_if<bool>(value)) return *b;
  return wrong_type(key, "true or false");
}

void GgufFile::release(const GgufTensor& tensor, int64_t first_row, int64_t row_count) const {
  const std::byte* data = tensor.view.row(first_row);
  for (const MappedFile& file : files_) {
    const std::byte* start = file.bytes().data();
    const std::byte* end = start + file.bytes().size();
    if (std::less_equal<>{}(start, data) && std::less<>{}(data, end)) {
      file.release(static_cast<size_t>(data - start),
                   static_cast<size_t>(row_count * tensor.view.row_bytes()));
      return;
    }
  }
}

}  // namespace ridge
