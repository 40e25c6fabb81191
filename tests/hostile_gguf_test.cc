// Hostile GGUF files: each is a good tiny model broken in one place, and must be refused with a
// sentence about that place. They are parsed from memory that ends at an unmapped page, so a read
// past the end crashes in every build. Cases follow the history of other loaders (advisories on
// overflowing sizes, absurd counts, type confusion, zero dimensions).
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <ctime>
#include <functional>
#include <limits>
#include <string>

#include "base/rng.h"
#include "model/gguf.h"
#include "model/spec_from_gguf.h"
#include "tests/gguf_writer.h"

// fuzz/gguf_fuzz.cc under the name that tests/CMakeLists.txt gives it.
extern "C" int gguf_fuzz_one_input(const uint8_t* data, size_t size);

namespace ridge {
namespace {

using testing::HasSubstr;

// A writable run of bytes whose end is the end of a page, before an unmapped one.
class GuardedBytes {
 public:
  explicit GuardedBytes(size_t capacity) {
    const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
    capacity_ = (capacity + page - 1) / page * page;
    void* start = ::mmap(nullptr, capacity_ + page, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT_NE(start, MAP_FAILED);
    start_ = static_cast<std::byte*>(start);
    EXPECT_EQ(::mprotect(start_ + capacity_, page, PROT_NONE), 0);
    mapped_ = capacity_ + page;
  }
  GuardedBytes(const GuardedBytes&) = delete;
  GuardedBytes& operator=(const GuardedBytes&) = delete;
  ~GuardedBytes() { ::munmap(start_, mapped_); }

  std::span<std::byte> hold(std::string_view content) {
    EXPECT_LE(content.size(), capacity_);
    std::byte* to = start_ + capacity_ - content.size();
    std::memcpy(to, content.data(), content.size());
    return {to, content.size()};
  }

 private:
  std::byte* start_ = nullptr;
  size_t capacity_ = 0, mapped_ = 0;
};

constexpr size_t kGuardedCapacity = 1 << 20;

// The message of the refusal, or "accepted".
std::string verdict(std::string_view content) {
  static GuardedBytes memory(kGuardedCapacity);
  const auto file = GgufFile::parse(memory.hold(content), "m.gguf");
  if (!file) return file.error().message;
  const auto spec = spec_from_gguf(*file);
  return spec ? "accepted" : spec.error().message;
}
std::string verdict(const GgufWriter& writer) { return verdict(writer.build()); }

void run_fuzz_target(std::string_view content) {
  static GuardedBytes memory(kGuardedCapacity);
  const auto bytes = memory.hold(content);
  gguf_fuzz_one_input(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
}

GgufWriter good() { return tiny_gguf(Architecture::llama); }

// A model small enough to try every byte of.
GgufWriter small() {
  TinyShape shape;
  shape.layers = 1;
  shape.vocab = 5;
  return tiny_gguf(Architecture::gemma3, shape);
}

GgufWriter with(const std::function<void(GgufWriter&)>& breakage) {
  GgufWriter writer = good();
  breakage(writer);
  return writer;
}

constexpr uint64_t kHostileNumbers[] = {0,
                                        1,
                                        (1ull << 31) - 1,
                                        (1ull << 31) + 1,
                                        (1ull << 32) - 1,
                                        (1ull << 32) + 1,
                                        (1ull << 61) - 1,
                                        (1ull << 61) + 1,
                                        (1ull << 63) - 1,
                                        (1ull << 63) + 1,
                                        ~0ull};

TEST(HostileGguf, the_unbroken_models_are_accepted) {
  for (auto arch :
       {Architecture::llama, Architecture::qwen2, Architecture::qwen3, Architecture::gemma3}) {
    EXPECT_EQ(verdict(tiny_gguf(arch)), "accepted");
  }
  EXPECT_EQ(verdict(small()), "accepted");
  GgufWriter v2 = good();
  v2.version = 2;
  EXPECT_EQ(verdict(v2), "accepted");
}

TEST(HostileGguf, other_formats_are_named) {
  EXPECT_THAT(verdict(""), HasSubstr("not a GGUF file"));
  EXPECT_THAT(verdict("GGU"), HasSubstr("not a GGUF file"));
  const std::string safetensors = ByteSink().put(uint64_t{60}).raw("{\"a\":{}}").bytes();
  EXPECT_THAT(verdict(safetensors), HasSubstr("safetensors"));
  EXPECT_THAT(verdict("\n <!DOCTYPE HTML><html>"), HasSubstr("web page"));
  EXPECT_THAT(verdict("version https://git-lfs.github.com/spec/v1"), HasSubstr("LFS"));
  EXPECT_THAT(verdict("PK\x03\x04...."), HasSubstr("zip"));
  EXPECT_THAT(verdict("\x80\x02}q"), HasSubstr("pickle"));
  EXPECT_THAT(verdict("tjgg\x01"), HasSubstr("before GGUF"));
  EXPECT_THAT(verdict("{\"model\": 1}"), HasSubstr("JSON"));
  EXPECT_THAT(verdict("JKLMNOP"), HasSubstr("starts with 4a 4b 4c 4d"));
}

TEST(HostileGguf, versions_and_byte_orders_that_are_not_read_are_named) {
  const auto version = [](uint32_t v) {
    return verdict(with([&](GgufWriter& w) { w.version = v; }));
  };
  EXPECT_THAT(version(1), HasSubstr("GGUF version 1"));
  EXPECT_THAT(version(4), HasSubstr("GGUF version 4"));
  EXPECT_THAT(version(0), HasSubstr("GGUF version 0"));
  EXPECT_THAT(version(0x03000000), HasSubstr("big-endian"));
}

TEST(HostileGguf, absurd_counts_are_refused_before_anything_is_allocated) {
  for (uint64_t count : {uint64_t{1} << 31, ~uint64_t{0}}) {
    EXPECT_THAT(verdict(with([&](GgufWriter& w) { w.tensor_count = count; })),
                HasSubstr("tensors, at most"));
    EXPECT_THAT(verdict(with([&](GgufWriter& w) { w.pair_count = count; })),
                HasSubstr("metadata keys, at most"));
    for (uint32_t type = 0; type < kGgufTypeCount; ++type) {
      if (static_cast<GgufType>(type) == GgufType::array) continue;
      EXPECT_THAT(verdict(with([&](GgufWriter& w) {
                    w.append_raw("k", GgufType::array, ByteSink().put(type).put(count).bytes());
                  })),
                  HasSubstr("bytes of the file are left"));
    }
    EXPECT_THAT(verdict(with([&](GgufWriter& w) {
                  w.append_raw("k", GgufType::string, ByteSink().put(count).bytes());
                })),
                HasSubstr("the file ends"));
  }
}

TEST(HostileGguf, keys_that_repeat_or_are_empty_or_too_long_are_refused) {
  const auto key = [](const std::string& name) {
    return verdict(with([&](GgufWriter& w) {
      w.append_raw(name, GgufType::u8, "1");
      w.append_raw(name, GgufType::u8, "1");
    }));
  };
  EXPECT_THAT(key("twice"), HasSubstr("'twice' occurs twice"));
  EXPECT_THAT(key(""), HasSubstr("is empty"));
  EXPECT_THAT(key(std::string(70000, 'k')), HasSubstr("70000 bytes long"));
}

TEST(HostileGguf, values_of_unknown_or_nested_types_are_refused) {
  const auto value = [](GgufType type, const std::string& bytes) {
    return verdict(with([&](GgufWriter& w) { w.append_raw("k", type, bytes); }));
  };
  EXPECT_THAT(value(static_cast<GgufType>(13), ""), HasSubstr("unknown value type 13"));
  EXPECT_THAT(value(static_cast<GgufType>(~0u), ""), HasSubstr("unknown value type"));
  EXPECT_THAT(value(GgufType::boolean, "\x02"), HasSubstr("boolean of value 2"));
  const std::string nested = ByteSink().put(uint32_t{9}).put(uint64_t{1}).bytes();
  EXPECT_THAT(value(GgufType::array, nested), HasSubstr("array of arrays"));
  const std::string odd = ByteSink().put(uint32_t{7}).put(uint64_t{2}).raw("\x01\x03").bytes();
  EXPECT_THAT(value(GgufType::array, odd), HasSubstr("boolean of value 3"));
}

TEST(HostileGguf, a_message_never_carries_raw_bytes_of_the_file) {
  const std::string message = verdict(with([](GgufWriter& w) {
    w.append_raw("\x1b[2J", GgufType::u8, "1");
    w.append_raw("\x1b[2J", GgufType::u8, "1");
  }));
  EXPECT_THAT(message, HasSubstr("\\x1b[2J"));
}

TEST(HostileGguf, an_alignment_that_is_no_power_of_two_in_range_is_refused) {
  for (uint32_t alignment : {0u, 1u, 4u, 24u, 33u, 1u << 21, ~0u}) {
    EXPECT_THAT(verdict(with([&](GgufWriter& w) { w.set("general.alignment", alignment); })),
                HasSubstr("expected a power of two"));
  }
  EXPECT_THAT(verdict(with([](GgufWriter& w) { w.set("general.alignment", "32"); })),
              HasSubstr("not an unsigned integer"));
  EXPECT_EQ(verdict(with([](GgufWriter& w) {
              w.alignment = 64;
              w.set("general.alignment", uint32_t{64});
            })),
            "accepted");
}

std::string shaped(std::vector<uint64_t> dims, DType dtype = DType::f32) {
  return verdict(with([&](GgufWriter& w) { w.add_tensor("odd", dims, dtype, "data"); }));
}

TEST(HostileGguf, dimensions_that_are_zero_negative_too_many_or_overflow_are_refused) {
  constexpr uint64_t k32 = 1ull << 32, k33 = 1ull << 33, k31 = 1ull << 31;
  EXPECT_THAT(shaped({}), HasSubstr("has 0 dimensions"));
  EXPECT_THAT(shaped({1, 1, 1, 1, 1}), HasSubstr("has 5 dimensions"));
  EXPECT_THAT(shaped({0}), HasSubstr("the size 0"));
  EXPECT_THAT(shaped({4, 0, 4}), HasSubstr("the size 0"));
  EXPECT_THAT(shaped({~0ull, 4}), HasSubstr("the size -1"));
  EXPECT_THAT(shaped({k32, k32}), HasSubstr("more elements"));
  EXPECT_THAT(shaped({k33, k31}), HasSubstr("more elements"));
  EXPECT_THAT(shaped({(1ull << 63) - 1, 2}), HasSubstr("more elements"));
  EXPECT_THAT(shaped({k32, k31 - 1}), HasSubstr("more bytes"));
  EXPECT_THAT(shaped({k31, k31 - 1}, DType::f16), HasSubstr("truncated or corrupt"));
  EXPECT_THAT(verdict(with([](GgufWriter& w) { w.tensors[1].dimension_count = ~0u; })),
              HasSubstr("dimensions"));
}

TEST(HostileGguf, rows_that_are_not_whole_blocks_are_refused) {
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    const auto n = static_cast<uint64_t>(block_format(dtype).elements);
    if (n == 1) continue;
    EXPECT_THAT(shaped({n + 1, n}, dtype), HasSubstr("not whole")) << name_of(dtype);
    EXPECT_THAT(shaped({n / 2, 2}, dtype), HasSubstr("not whole")) << name_of(dtype);
  }
}

TEST(HostileGguf, a_dtype_that_is_not_read_is_given_by_number_and_name) {
  const auto typed = [](uint32_t type) {
    return verdict(with([&](GgufWriter& w) { w.tensors[2].type = type; }));
  };
  EXPECT_THAT(typed(20), HasSubstr("type 20 (IQ4_NL)"));
  EXPECT_THAT(typed(4), HasSubstr("type 4 (Q4_2, removed"));
  EXPECT_THAT(typed(777), HasSubstr("type 777, which"));
  EXPECT_THAT(typed(~0u), HasSubstr("it reads F32 F16 BF16"));
}

TEST(HostileGguf, offsets_past_the_end_misaligned_or_overlapping_are_refused) {
  const auto placed = [](uint64_t offset) {
    return verdict(with([&](GgufWriter& w) { w.tensors[2].offset = offset; }));
  };
  EXPECT_THAT(placed(7), HasSubstr("not a multiple of the alignment"));
  EXPECT_THAT(placed(0), HasSubstr("overlap"));
  EXPECT_THAT(placed(32), HasSubstr("overlap"));
  EXPECT_THAT(placed(1 << 30), HasSubstr("truncated or corrupt"));
  EXPECT_THAT(placed(~0ull - 31), HasSubstr("truncated or corrupt"));
  EXPECT_THAT(placed(1ull << 63), HasSubstr("truncated or corrupt"));
}

TEST(HostileGguf, tensor_names_that_repeat_or_are_empty_or_too_long_are_refused) {
  const auto named = [](const std::string& name) {
    return verdict(with([&](GgufWriter& w) { w.tensors[2].name = name; }));
  };
  EXPECT_THAT(named("token_embd.weight"), HasSubstr("'token_embd.weight' occurs twice"));
  EXPECT_THAT(named(""), HasSubstr("empty name"));
  EXPECT_THAT(named(std::string(256, 'n')), HasSubstr("256 bytes long"));
}

// A value of the given type for a key, as plausible as that type allows.
std::string value_bytes(GgufType type) {
  switch (type) {
    case GgufType::string:
      return ByteSink().put(std::string("7")).bytes();
    case GgufType::array:
      return ByteSink().put(uint32_t{6}).put(uint64_t{1}).put(7.0f).bytes();
    case GgufType::u8:
    case GgufType::i8:
      return "\x07";
    case GgufType::boolean:
      return "\x01";
    case GgufType::u16:
    case GgufType::i16:
      return ByteSink().put(uint16_t{7}).bytes();
    case GgufType::f32:
      return ByteSink().put(7.0f).bytes();
    case GgufType::f64:
      return ByteSink().put(7.0).bytes();
    case GgufType::u32:
    case GgufType::i32:
      return ByteSink().put(uint32_t{7}).bytes();
    default:
      return ByteSink().put(uint64_t{7}).bytes();
  }
}

TEST(HostileGguf, each_known_key_with_each_wrong_type_is_refused_by_name) {
  enum class Kind { integer, number, text, texts };
  const GgufWriter base = tiny_gguf(Architecture::gemma3);
  const auto kind_of = [](const std::string& key) {
    if (key.ends_with("epsilon") || key.ends_with("freq_base")) return Kind::number;
    if (key.ends_with("tokens")) return Kind::texts;
    return key.starts_with("gemma3.") ? Kind::integer : Kind::text;
  };
  for (const GgufWriter::Pair& pair : base.pairs) {
    if (pair.key == "tokenizer.ggml.model") continue;  // the tokenizer's own
    for (int t = 0; t < kGgufTypeCount; ++t) {
      const auto type = static_cast<GgufType>(t);
      const Kind kind = kind_of(pair.key);
      const bool is_float = type == GgufType::f32 || type == GgufType::f64;
      const bool is_other =
          type == GgufType::string || type == GgufType::array || type == GgufType::boolean;
      if (kind == Kind::integer && !is_float && !is_other) continue;
      if (kind == Kind::number && !is_other) continue;
      if (kind == Kind::text && type == GgufType::string) continue;
      GgufWriter broken = base;
      broken.set_raw(pair.key, type, value_bytes(type));
      EXPECT_THAT(verdict(broken), HasSubstr(fmt::format("'{}'", pair.key))) << "type " << t;
    }
  }
}

TEST(HostileGguf, truncation_at_every_byte_of_the_header_is_refused) {
  const std::string content = small().build();
  const size_t head = small().head().size();
  ASSERT_GT(content.size(), head);
  for (size_t size = 0; size < head; ++size) {
    ASSERT_NE(verdict(std::string_view(content).substr(0, size)), "accepted") << size;
  }
}

TEST(HostileGguf, truncation_in_the_weights_is_refused) {
  const GgufWriter writer = good();
  const std::string content = writer.build();
  // All but the padding after the last tensor, which no one needs.
  const size_t data = writer.tensors.back().data.size();
  const size_t padded = (data + 31) / 32 * 32;
  Rng rng(3);
  for (int i = 0; i < 256; ++i) {
    const size_t size = rng.below(content.size() - (padded - data));
    ASSERT_NE(verdict(std::string_view(content).substr(0, size)), "accepted") << size;
  }
  EXPECT_EQ(verdict(std::string_view(content).substr(0, content.size() - (padded - data))),
            "accepted");
}

TEST(FuzzGguf, every_u64_of_the_header_survives_hostile_numbers) {
  const std::string content = small().build();
  const size_t head = small().head().size();
  for (size_t at = 4; at + 8 <= head; ++at) {
    for (uint64_t number : kHostileNumbers) {
      std::string broken = content;
      std::memcpy(broken.data() + at, &number, sizeof number);
      run_fuzz_target(broken);
    }
  }
}

std::string mutated(std::string content, size_t head, Rng& rng) {
  const uint64_t edits = 1 + rng.below(4);
  for (uint64_t i = 0; i < edits; ++i) {
    const size_t at = rng.below(std::min(head, content.size()));
    const size_t run = std::min<size_t>(rng.below(12), content.size() - at);
    switch (rng.below(6)) {
      case 0:
        content[at] = static_cast<char>(rng.next());
        break;
      case 1:
        content[at] = static_cast<char>(content[at] ^ (1 << rng.below(8)));
        break;
      case 2:
        content.erase(at, run);
        break;
      case 3:
        content.insert(at, content.substr(rng.below(content.size()), run));
        break;
      case 4: {
        const uint64_t number = kHostileNumbers[rng.below(std::size(kHostileNumbers))];
        std::memcpy(content.data() + at, &number, std::min<size_t>(8, content.size() - at));
        break;
      }
      default:
        content[at] = static_cast<char>(content[at] + static_cast<int>(rng.below(5)) - 2);
    }
    if (content.empty()) content.push_back('G');
  }
  return content;
}

TEST(FuzzGguf, seeded_mutations_never_crash_the_reader) {
  constexpr int kMutations = 30'000;
  constexpr uint64_t kSeed = 20261130;
  Rng rng(kSeed);
  std::vector<GgufWriter> corpus = {small()};
  TinyShape shape;
  shape.layers = 1;
  shape.vocab = 3;
  for (auto arch : {Architecture::llama, Architecture::qwen2, Architecture::qwen3}) {
    corpus.push_back(tiny_gguf(arch, shape));
  }
  for (int i = 0; i < kMutations; ++i) {
    const GgufWriter& seed = corpus[rng.below(corpus.size())];
    run_fuzz_target(mutated(seed.build(), seed.head().size(), rng));
  }
}

#if !defined(__SANITIZE_ADDRESS__)  // which needs memory of its own

// A line of /proc/self/status in bytes.
size_t status_bytes(const char* field) {
  FILE* status = std::fopen("/proc/self/status", "r");
  char line[256];
  size_t kilobytes = 0;
  while (status != nullptr && std::fgets(line, sizeof line, status) != nullptr) {
    if (std::strncmp(line, field, std::strlen(field)) == 0) {
      std::sscanf(line + std::strlen(field), ": %zu", &kilobytes);
    }
  }
  if (status != nullptr) std::fclose(status);
  return kilobytes * 1024;
}

// Opens the file in a child; its exit status says which promise it broke.
enum Outcome { kKept, kAccepted, kTooSlow, kTooLarge, kNoMeasurement };

Outcome reject_in_child(const std::string& path) {
  const pid_t child = ::fork();
  if (child == 0) {
    FILE* reset = std::fopen("/proc/self/clear_refs", "w");  // 5: start the peak afresh
    if (reset == nullptr || std::fputs("5", reset) < 0 || std::fclose(reset) != 0) {
      ::_exit(kNoMeasurement);
    }
    const size_t before = status_bytes("VmRSS");
    const std::clock_t start = std::clock();  // of the CPU: neighbours do not count
    const bool accepted = GgufFile::open(path).has_value();
    const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
    const size_t peak = status_bytes("VmHWM");
    if (accepted) ::_exit(kAccepted);
    if (seconds > 0.2) ::_exit(kTooSlow);
    ::_exit(peak - before > (size_t{64} << 20) ? kTooLarge : kKept);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? static_cast<Outcome>(WEXITSTATUS(status)) : kNoMeasurement;
}

// An array that fills ten megabytes, in a file that ends before its tensors.
GgufWriter large_array(uint32_t type, uint64_t count, const std::string& element) {
  ByteSink sink;
  sink.put(type).put(count);
  for (uint64_t i = 0; i < count; ++i) sink.raw(element);
  GgufWriter w;
  w.append_raw("k", GgufType::array, sink.bytes());
  w.tensor_count = 1;
  return w;
}

TEST(HostileGguf, ten_hostile_megabytes_are_refused_in_little_time_and_memory) {
  constexpr uint64_t kBytes = 10'000'000;
  std::vector<std::pair<std::string, GgufWriter>> files = {
      {"empty strings", large_array(8, kBytes / 8, std::string(8, '\0'))},
      {"short strings", large_array(8, kBytes / 12, ByteSink().put(std::string("word")).bytes())},
      {"bytes", large_array(0, kBytes, std::string(1, '\0'))},
      {"floats", large_array(6, kBytes / 4, std::string(4, '\0'))},
      {"booleans", large_array(7, kBytes, std::string(1, '\0'))},
      {"one string", GgufWriter()},
      {"keys", GgufWriter()},
      {"tensors", GgufWriter()},
  };
  files[5].second.set("k", std::string(kBytes, 'x')).tensor_count = 1;
  for (int i = 0; i < 65'000; ++i) {
    files[6].second.append_raw(fmt::format("k{}", i), GgufType::string,
                               ByteSink().put(std::string(130, 'v')).bytes());
  }
  files[6].second.tensor_count = 1;
  for (int i = 0; i < 65'000; ++i) {
    files[7].second.add_tensor(fmt::format("{:t>110}", i), {1, 1, 1, 1}, DType::f32, "");
  }
  files[7].second.tensor_count = 65'001;
  for (const auto& [name, writer] : files) {
    const std::string path = testing::TempDir() + "hostile.gguf";
    writer.write(path);
    EXPECT_EQ(reject_in_child(path), kKept) << name;
    ::unlink(path.c_str());
  }
}

#endif

}  // namespace
}  // namespace ridge
