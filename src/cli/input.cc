// SPDX-License-Identifier: Apache-2.0
#include "cli/input.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

namespace ridge {

namespace {

constexpr size_t kMaxTextBytes = size_t{64} << 20;

Result<std::string> read_stream(std::FILE* stream, const std::string& name) {
  std::string text;
  char buffer[1 << 16];
  for (size_t n; (n = std::fread(buffer, 1, sizeof buffer, stream)) > 0;) {
    text.append(buffer, n);
    if (text.size() > kMaxTextBytes)
      return Error{ErrorCode::invalid_input,
                   fmt::format("{} is longer than {} MiB", name, kMaxTextBytes >> 20)};
  }
  if (std::ferror(stream) != 0)
    return Error{ErrorCode::io, fmt::format("{}: {}", name, std::strerror(errno))};
  return text;
}

}  // namespace

Result<std::string> read_text(const std::string& path) {
  if (path.empty() || path == "-") return read_stream(stdin, "standard input");
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"),
                                                             std::fclose);
  if (file == nullptr)
    return Error{ErrorCode::io, fmt::format("file '{}': {}", path, std::strerror(errno))};
  return read_stream(file.get(), fmt::format("file '{}'", path));
}

}  // namespace ridge
