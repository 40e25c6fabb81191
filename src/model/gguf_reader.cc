// SPDX-License-Identifier: Apache-2.0
#include "model/gguf_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "model/gguf_sniff.h"
#include "model/gguf_types.h"
#include "model/quote.h"

namespace ridge {
namespace {

static_assert(std::endian::native == std::endian::little, "GGUF values are read in place");

enum class ValueType : uint32_t {
  u8,
  i8,
  u16,
  i16,
  u32,
  i32,
  f32,
  boolean,
  string,
  array,
  u64,
  i64,
  f64,
};
constexpr uint32_t kValueTypeCount = 13;

// Fewest bytes that a value of each type takes in the file.
constexpr uint64_t kSmallestValue[kValueTypeCount] = {1, 1, 2, 2, 4, 4, 4, 1, 8, 12, 8, 8, 8};

struct RawTensor {
  GgufTensor tensor;
  uint64_t offset = 0;  // from the start of the data section
  uint64_t bytes = 0;
};

class Reader {
 public:
  Reader(std::span<const std::byte> bytes, const std::string& name)
      : bytes_(bytes),
        name_(name),
        budget_(std::min(kMaxMetadataBytes,
                         bytes.size() * kMetadataAmplification + kMetadataSlackBytes)) {}

  Result<GgufPart> read();

 private:
  uint64_t left() const { return bytes_.size() - at_; }

  template <class... Args>
  Error bad(fmt::format_string<Args...> format, Args&&... args) const {
    return {ErrorCode::invalid_input,
            name_ + ": " + fmt::format(format, std::forward<Args>(args)...)};
  }
  Error truncated(uint64_t needed) const {
    return bad("the file ends at byte {} inside {}, which needs {} bytes from byte {}",
               bytes_.size(), where(), needed, at_);
  }

  // Takes `size` bytes of heap from what this file may use.
  Status charge(uint64_t size) {
    if (size > budget_) {
      return bad("{} would take more memory than a file of {} bytes justifies", where(),
                 bytes_.size());
    }
    budget_ -= size;
    return {};
  }

  template <class T>
  Result<T> scalar() {
    if (left() < sizeof(T)) return truncated(sizeof(T));
    T value;
    std::memcpy(&value, bytes_.data() + at_, sizeof value);
    at_ += sizeof value;
    return value;
  }
  Result<std::string> string(uint64_t max_bytes);
  Result<bool> boolean();
  Result<uint32_t> value_type();

  Status read_header();
  Status read_pair(uint64_t i);
  Result<GgufValue> value(ValueType type);
  Result<GgufValue> array();
  template <class Stored, class Wide>
  Result<GgufValue> numbers(uint64_t count);
  Result<GgufValue> booleans(uint64_t count);
  Result<GgufValue> strings(uint64_t count);

  Status read_alignment();
  Status read_tensor(uint64_t i);
  Status read_shape(RawTensor& raw);
  Status read_dtype(RawTensor& raw);
  Status place_tensors();
  Status check_names_and_overlaps() const;

  std::span<const std::byte> bytes_;
  const std::string& name_;
  uint64_t at_ = 0;
  uint64_t budget_;
  // What is being read, for messages; its words are made only when one is needed.
  struct Place {
    std::string_view kind = "the header";
    uint64_t number = 0, count = 0;  // shown when there is no name yet
    const std::string* name = nullptr;
  };
  std::string where() const {
    if (where_.name != nullptr) return fmt::format("{} {}", where_.kind, quoted(*where_.name));
    if (where_.count == 0) return std::string(where_.kind);
    return fmt::format("{} {} of {}", where_.kind, where_.number, where_.count);
  }
  Place where_;
  uint64_t tensor_count_ = 0, pair_count_ = 0;
  uint64_t alignment_ = kDefaultGgufAlignment;
  std::map<std::string, GgufValue, std::less<>> metadata_;
  std::vector<RawTensor> raw_;
};

Result<std::string> Reader::string(uint64_t max_bytes) {
  RIDGE_TRY(const uint64_t size, scalar<uint64_t>());
  if (size > left()) return truncated(size);
  if (size > max_bytes)
    return bad("{} is {} bytes long, at most {} are allowed", where(), size, max_bytes);
  RIDGE_RETURN_IF_ERROR(charge(size));
  std::string text(reinterpret_cast<const char*>(bytes_.data() + at_), size);
  at_ += size;
  return text;
}

Result<bool> Reader::boolean() {
  RIDGE_TRY(const uint8_t byte, scalar<uint8_t>());
  if (byte > 1) return bad("{} is a boolean of value {}, expected 0 or 1", where(), byte);
  return byte == 1;
}

Result<uint32_t> Reader::value_type() {
  RIDGE_TRY(const uint32_t type, scalar<uint32_t>());
  if (type >= kValueTypeCount) return bad("{} has the unknown value type {}", where(), type);
  return type;
}

Status Reader::read_header() {
  constexpr char kMagic[4] = {'G', 'G', 'U', 'F'};
  if (left() < sizeof kMagic || std::memcmp(bytes_.data(), kMagic, sizeof kMagic) != 0) {
    return bad("not a GGUF file: {}", what_it_looks_like(bytes_));
  }
  at_ = sizeof kMagic;
  RIDGE_TRY(const uint32_t version, scalar<uint32_t>());
  if ((version & 0xffff) == 0 && version != 0) {
    return {Error{ErrorCode::not_supported,
                  name_ + ": a big-endian GGUF file; only little-endian ones are read"}};
  }
  if (version != 2 && version != 3) {
    return {Error{ErrorCode::not_supported,
                  fmt::format("{}: GGUF version {}; versions 2 and 3 are read{}", name_, version,
                              version == 1 ? ": convert the model again" : "")}};
  }
  RIDGE_TRY(tensor_count_, scalar<uint64_t>());
  RIDGE_TRY(pair_count_, scalar<uint64_t>());
  if (tensor_count_ > kMaxGgufTensors) {
    return bad("the header claims {} tensors, at most {} are allowed", tensor_count_,
               kMaxGgufTensors);
  }
  if (pair_count_ > kMaxGgufKeys) {
    return bad("the header claims {} metadata keys, at most {} are allowed", pair_count_,
               kMaxGgufKeys);
  }
  return {};
}

Status Reader::read_pair(uint64_t i) {
  where_ = {"metadata key", i + 1, pair_count_};
  RIDGE_TRY(std::string key, string(kMaxGgufKeyBytes));
  if (key.empty()) return bad("{} is empty", where());
  where_.name = &key;
  if (metadata_.contains(key)) return bad("{} occurs twice", where());
  RIDGE_TRY(const uint32_t type, value_type());
  RIDGE_TRY(GgufValue found, value(static_cast<ValueType>(type)));
  constexpr uint64_t kNodeBytes = sizeof(std::pair<std::string, GgufValue>) + 4 * sizeof(void*);
  RIDGE_RETURN_IF_ERROR(charge(kNodeBytes));
  metadata_.emplace(std::move(key), std::move(found));
  return {};
}

template <class Wide, class Stored>
Result<GgufValue> widened(Result<Stored> result) {
  if (!result) return result.error();
  return GgufValue(static_cast<Wide>(std::move(result).value()));
}

Result<GgufValue> Reader::value(ValueType type) {
  switch (type) {
    case ValueType::u8:
      return widened<uint64_t>(scalar<uint8_t>());
    case ValueType::i8:
      return widened<int64_t>(scalar<int8_t>());
    case ValueType::u16:
      return widened<uint64_t>(scalar<uint16_t>());
    case ValueType::i16:
      return widened<int64_t>(scalar<int16_t>());
    case ValueType::u32:
      return widened<uint64_t>(scalar<uint32_t>());
    case ValueType::i32:
      return widened<int64_t>(scalar<int32_t>());
    case ValueType::f32:
      return widened<double>(scalar<float>());
    case ValueType::boolean:
      return widened<bool>(boolean());
    case ValueType::string:
      return widened<std::string>(string(std::numeric_limits<uint64_t>::max()));
    case ValueType::array:
      return array();
    case ValueType::u64:
      return widened<uint64_t>(scalar<uint64_t>());
    case ValueType::i64:
      return widened<int64_t>(scalar<int64_t>());
    case ValueType::f64:
      return widened<double>(scalar<double>());
  }
  CHECK(false);
  return bad("{}", where());
}

Result<GgufValue> Reader::array() {
  RIDGE_TRY(const uint32_t type, value_type());
  if (static_cast<ValueType>(type) == ValueType::array) {
    return bad("{} is an array of arrays, which no known key uses", where());
  }
  RIDGE_TRY(const uint64_t count, scalar<uint64_t>());
  if (count > left() / kSmallestValue[type]) {
    return bad("{} claims {} elements, but only {} bytes of the file are left", where(), count,
               left());
  }
  switch (static_cast<ValueType>(type)) {
    case ValueType::u8:
      return numbers<uint8_t, uint64_t>(count);
    case ValueType::i8:
      return numbers<int8_t, int64_t>(count);
    case ValueType::u16:
      return numbers<uint16_t, uint64_t>(count);
    case ValueType::i16:
      return numbers<int16_t, int64_t>(count);
    case ValueType::u32:
      return numbers<uint32_t, uint64_t>(count);
    case ValueType::i32:
      return numbers<int32_t, int64_t>(count);
    case ValueType::f32:
      return numbers<float, double>(count);
    case ValueType::u64:
      return numbers<uint64_t, uint64_t>(count);
    case ValueType::i64:
      return numbers<int64_t, int64_t>(count);
    case ValueType::f64:
      return numbers<double, double>(count);
    case ValueType::boolean:
      return booleans(count);
    case ValueType::string:
      return strings(count);
    case ValueType::array:
      break;
  }
  CHECK(false);
  return bad("{}", where());
}

// The caller has checked that `count` elements fit in what is left of the file.
template <class Stored, class Wide>
Result<GgufValue> Reader::numbers(uint64_t count) {
  RIDGE_RETURN_IF_ERROR(charge(count * sizeof(Wide)));
  std::vector<Wide> values(count);
  for (Wide& value : values) {
    Stored stored;
    std::memcpy(&stored, bytes_.data() + at_, sizeof stored);
    at_ += sizeof stored;
    value = static_cast<Wide>(stored);
  }
  return GgufValue(std::move(values));
}

Result<GgufValue> Reader::booleans(uint64_t count) {
  RIDGE_RETURN_IF_ERROR(charge(count / 8 + 8));
  std::vector<bool> values;
  values.reserve(count);
  for (uint64_t i = 0; i < count; ++i) {
    const auto byte = std::to_integer<uint8_t>(bytes_[at_++]);
    if (byte > 1) return bad("{} holds a boolean of value {}, expected 0 or 1", where(), byte);
    values.push_back(byte == 1);
  }
  return GgufValue(std::move(values));
}

Result<GgufValue> Reader::strings(uint64_t count) {
  RIDGE_RETURN_IF_ERROR(charge(count * sizeof(std::string)));
  std::vector<std::string> values;
  values.reserve(count);
  for (uint64_t i = 0; i < count; ++i) {
    if (left() < sizeof(uint64_t)) return truncated(sizeof(uint64_t));
    uint64_t size;
    std::memcpy(&size, bytes_.data() + at_, sizeof size);
    at_ += sizeof size;
    if (size > left()) return truncated(size);
    // Short strings live inside std::string itself, which is already paid for.
    if (size >= sizeof(std::string) / 2) RIDGE_RETURN_IF_ERROR(charge(size + 1));
    values.emplace_back(reinterpret_cast<const char*>(bytes_.data() + at_), size);
    at_ += size;
  }
  return GgufValue(std::move(values));
}

Status Reader::read_alignment() {
  const auto found = metadata_.find("general.alignment");
  if (found == metadata_.end()) return {};
  const auto* alignment = std::get_if<uint64_t>(&found->second);
  if (alignment == nullptr) {
    return bad("metadata key 'general.alignment' is not an unsigned integer");
  }
  if (!std::has_single_bit(*alignment) || *alignment < kMinGgufAlignment ||
      *alignment > kMaxGgufAlignment) {
    return bad("metadata key 'general.alignment' is {}, expected a power of two from {} to {}",
               *alignment, kMinGgufAlignment, kMaxGgufAlignment);
  }
  alignment_ = *alignment;
  return {};
}

Status Reader::read_tensor(uint64_t i) {
  where_ = {"the description of tensor", i + 1, tensor_count_};
  RawTensor raw;
  RIDGE_TRY(raw.tensor.name, string(kMaxGgufTensorNameBytes));
  if (raw.tensor.name.empty()) return bad("{} has an empty name", where());
  where_ = {"tensor", i + 1, tensor_count_, &raw.tensor.name};
  RIDGE_RETURN_IF_ERROR(read_shape(raw));
  RIDGE_RETURN_IF_ERROR(read_dtype(raw));
  RIDGE_TRY(raw.offset, scalar<uint64_t>());
  if (raw.offset % alignment_ != 0) {
    return bad("{} starts at offset {}, which is not a multiple of the alignment {}", where(),
               raw.offset, alignment_);
  }
  RIDGE_RETURN_IF_ERROR(charge(sizeof(RawTensor) + sizeof(GgufTensor)));
  raw_.push_back(std::move(raw));
  return {};
}

Status Reader::read_shape(RawTensor& raw) {
  constexpr uint32_t kMaxDimensions = 4;
  RIDGE_TRY(const uint32_t dimensions, scalar<uint32_t>());
  if (dimensions < 1 || dimensions > kMaxDimensions) {
    return bad("{} has {} dimensions, expected 1 to {}", where(), dimensions, kMaxDimensions);
  }
  int64_t elements = 1;
  for (uint32_t i = 0; i < dimensions; ++i) {
    RIDGE_TRY(const uint64_t size, scalar<uint64_t>());
    if (size == 0 || size > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      return bad("{} has the size {} in dimension {}, expected 1 or more", where(),
                 static_cast<int64_t>(size), i);
    }
    raw.tensor.shape.push_back(static_cast<int64_t>(size));
    if (__builtin_mul_overflow(elements, raw.tensor.shape.back(), &elements)) {
      return bad("{} has more elements than 64 bits count", where());
    }
  }
  raw.tensor.view.cols = raw.tensor.shape[0];
  raw.tensor.view.rows = elements / raw.tensor.shape[0];
  return {};
}

Status Reader::read_dtype(RawTensor& raw) {
  RIDGE_TRY(const uint32_t number, scalar<uint32_t>());
  const auto dtype = dtype_from_gguf_type(number);
  if (!dtype) {
    return {Error{ErrorCode::not_supported,
                  fmt::format("{}: {} has the type {}, which ridge does not read; it reads {}",
                              name_, where(), type_label(number), readable_dtypes())}};
  }
  const BlockFormat block = block_format(*dtype);
  TensorView& view = raw.tensor.view;
  if (view.cols % block.elements != 0) {
    return bad("{} has rows of {} elements, which are not whole {} blocks of {}", where(),
               view.cols, name_of(*dtype), block.elements);
  }
  int64_t bytes = 0;
  if (__builtin_mul_overflow(view.cols / block.elements * view.rows, block.bytes, &bytes)) {
    return bad("{} has more bytes than 64 bits count", where());
  }
  view.dtype = *dtype;
  raw.bytes = static_cast<uint64_t>(bytes);
  return {};
}

// Every tensor must lie inside the data section, which starts at the next multiple of the
// alignment.
Status Reader::place_tensors() {
  const uint64_t start = (at_ + alignment_ - 1) / alignment_ * alignment_;
  const uint64_t section = start < bytes_.size() ? bytes_.size() - start : 0;
  for (RawTensor& raw : raw_) {
    if (raw.offset > section || raw.bytes > section - raw.offset) {
      return bad(
          "tensor {} needs {} bytes at offset {} of the data, but the file has {} there: it is "
          "truncated or corrupt",
          quoted(raw.tensor.name), raw.bytes, raw.offset,
          raw.offset < section ? section - raw.offset : 0);
    }
    raw.tensor.view.data = bytes_.data() + start + raw.offset;
  }
  return check_names_and_overlaps();
}

Status Reader::check_names_and_overlaps() const {
  std::vector<const RawTensor*> order;
  order.reserve(raw_.size());
  for (const RawTensor& raw : raw_) order.push_back(&raw);
  std::sort(order.begin(), order.end(),
            [](auto* a, auto* b) { return a->tensor.name < b->tensor.name; });
  for (size_t i = 1; i < order.size(); ++i) {
    if (order[i - 1]->tensor.name == order[i]->tensor.name) {
      return bad("tensor {} occurs twice", quoted(order[i]->tensor.name));
    }
  }
  std::sort(order.begin(), order.end(), [](auto* a, auto* b) { return a->offset < b->offset; });
  for (size_t i = 1; i < order.size(); ++i) {
    if (order[i]->offset - order[i - 1]->offset < order[i - 1]->bytes) {
      return bad("tensors {} and {} overlap at offset {}", quoted(order[i - 1]->tensor.name),
                 quoted(order[i]->tensor.name), order[i]->offset);
    }
  }
  return {};
}

Result<GgufPart> Reader::read() {
  RIDGE_RETURN_IF_ERROR(read_header());
  for (uint64_t i = 0; i < pair_count_; ++i) RIDGE_RETURN_IF_ERROR(read_pair(i));
  RIDGE_RETURN_IF_ERROR(read_alignment());
  for (uint64_t i = 0; i < tensor_count_; ++i) RIDGE_RETURN_IF_ERROR(read_tensor(i));
  RIDGE_RETURN_IF_ERROR(place_tensors());
  GgufPart part;
  part.metadata = std::move(metadata_);
  part.tensors.reserve(raw_.size());
  for (RawTensor& raw : raw_) part.tensors.push_back(std::move(raw.tensor));
  return part;
}

}  // namespace

Result<GgufPart> read_gguf_part(std::span<const std::byte> bytes, const std::string& name) {
  return Reader(bytes, name).read();
}

}  // namespace ridge
