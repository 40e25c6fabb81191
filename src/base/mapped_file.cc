// SPDX-License-Identifier: Apache-2.0
#include "base/mapped_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace ridge {
namespace {

Error io_error(const std::string& path, std::string_view what) {
  return {ErrorCode::io, fmt::format("{}: {}", path, what)};
}

// Closes on the way out: the mapping outlives the descriptor.
struct Descriptor {
  int fd = -1;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

const char* kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

}  // namespace

Result<MappedFile> MappedFile::open(const std::string& path) {
  // A path with a NUL would open a file other than the one that messages name.
  if (path.empty() || path.find('\0') != std::string::npos) {
    return io_error(path, "not a file name");
  }
  // Without O_NONBLOCK, opening a pipe would wait for its writer.
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.fd < 0) {
    return io_error(path, errno == ENOENT ? "no such file"
                                          : fmt::format("cannot be opened ({})", strerror(errno)));
  }
  struct stat status;
  if (::fstat(file.fd, &status) != 0) return io_error(path, strerror(errno));
  if (!S_ISREG(status.st_mode)) {
    return io_error(path, fmt::format("is {}, expected a file", kind_of(status.st_mode)));
  }
  if (status.st_size == 0) return io_error(path, "the file is empty");
  const auto size = static_cast<size_t>(status.st_size);
  void* data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.fd, 0);
  if (data == MAP_FAILED) {
    return io_error(path, fmt::format("cannot be mapped ({})", strerror(errno)));
  }
  MappedFile mapped;
  mapped.data_ = static_cast<const std::byte*>(data);
  mapped.size_ = size;
  return mapped;
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

void MappedFile::release(size_t offset, size_t length) const {
  if (offset >= size_) return;
  if (length > size_ - offset) length = size_ - offset;
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  const size_t first = (offset + page - 1) / page * page;
  // The last page of the file belongs to whoever holds its last byte.
  const size_t end = offset + length == size_ ? size_ : (offset + length) / page * page;
  if (first >= end) return;
  // Only advice: if the kernel refuses, the pages stay and nothing is wrong.
  (void)::madvise(const_cast<std::byte*>(data_) + first, end - first, MADV_DONTNEED);
}

}  // namespace ridge
