// A read-only memory map of a regular file.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "base/result.h"

namespace ridge {

class MappedFile {
 public:
  // Errors: missing, a directory or other special file, empty, unreadable.
  static Result<MappedFile> open(const std::string& path);
  MappedFile() = default;
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  // Drops the pages wholly inside [offset, offset + length) from this process. They read back from
  // the file when touched again.
  void release(size_t offset, size_t length) const;

 private:
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace ridge
