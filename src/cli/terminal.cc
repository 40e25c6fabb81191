// SPDX-License-Identifier: Apache-2.0
#include "cli/terminal.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace ridge {

namespace {

// File names and prompts may hold control characters: a message stays one line and safe to print.
std::string one_line(std::string text) {
  for (char& c : text)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  return text;
}

}  // namespace

void put(std::FILE* stream, std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stream);
}

void note(const std::string& message) {
  put(stderr, fmt::format("ridge: {}\n", one_line(message)));
}

void warning(const std::string& message) {
  put(stderr, fmt::format("ridge: warning: {}\n", one_line(message)));
}

int fail(const Error& error) {
  put(stderr, fmt::format("ridge: error: {}\n", one_line(error.message)));
  return error.code == ErrorCode::usage ? kExitUsage : kExitFailed;
}

void ProgressLine::show(const std::string& what, double share) {
  static const bool is_terminal = isatty(STDERR_FILENO) == 1;
  const int percent = std::clamp(static_cast<int>(share * 100), 0, 100);
  if (!is_terminal || percent == last_percent_) return;
  last_percent_ = percent;
  drawn_ = true;
  put(stderr, fmt::format("\r\x1b[Kridge: {} {:3d} %", what, percent));
  std::fflush(stderr);
}

void ProgressLine::clear() {
  if (drawn_) put(stderr, "\r\x1b[K");
  drawn_ = false;
}

}  // namespace ridge
