// SPDX-License-Identifier: Apache-2.0
#include "base/aligned_buffer.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#include "base/check.h"

namespace ridge {
namespace {

constexpr size_t kVectorBytes = 64;          // the widest vector, and a cache line
constexpr size_t kPageBytes = 4096;          // munmap rounds up to the real page where larger
constexpr size_t kHugePageBytes = 2u << 20;  // x86-64 and most arm64 kernels
constexpr size_t kMapFromBytes = 256u << 10;

size_t round_up(size_t n, size_t multiple) { return (n + multiple - 1) / multiple * multiple; }

size_t mapped_bytes(size_t bytes) { return round_up(bytes, kPageBytes); }

std::byte* map_zeroed(size_t bytes) {
  // Huge pages need a start on their border: map more, give the ends back.
  const size_t slack = bytes >= kHugePageBytes ? kHugePageBytes : 0;
  const size_t wanted = mapped_bytes(bytes);
  if (wanted < bytes || wanted + slack < wanted) throw std::bad_alloc();
  void* mapping =
      mmap(nullptr, wanted + slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) throw std::bad_alloc();
  auto* begin = static_cast<std::byte*>(mapping);
  if (slack == 0) return begin;
  const size_t past = reinterpret_cast<uintptr_t>(begin) % kHugePageBytes;
  const size_t head = past == 0 ? 0 : kHugePageBytes - past;
  if (head > 0) munmap(begin, head);
  if (slack > head) munmap(begin + head + wanted, slack - head);
  // Advice only: a kernel without huge pages serves small ones.
  madvise(begin + head, wanted, MADV_HUGEPAGE);
  return begin + head;
}

std::byte* allocate_zeroed(size_t bytes) {
  if (bytes == 0) return nullptr;
  if (bytes >= kMapFromBytes) return map_zeroed(bytes);
  const size_t rounded = round_up(bytes, kVectorBytes);
  void* data = std::aligned_alloc(kVectorBytes, rounded);
  if (data == nullptr) throw std::bad_alloc();
  std::memset(data, 0, rounded);
  return static_cast<std::byte*>(data);
}

void release(std::byte* data, size_t bytes) {
  if (data == nullptr) return;
  if (bytes >= kMapFromBytes) {
    CHECK(munmap(data, mapped_bytes(bytes)) == 0);
  } else {
    std::free(data);
  }
}

}  // namespace

AlignedBuffer::AlignedBuffer(size_t bytes) : data_(allocate_zeroed(bytes)), size_(bytes) {}

AlignedBuffer::AlignedBuffer(AlignedBuffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

AlignedBuffer& AlignedBuffer::operator=(AlignedBuffer&& other) noexcept {
  if (this != &other) {
    release(data_, size_);
    data_ = std::exchange(other.data_, nullptr);
    size_ = std::exchange(other.size_, 0);
  }
  return *this;
}

AlignedBuffer::~AlignedBuffer() { release(data_, size_); }

}  // namespace ridge
