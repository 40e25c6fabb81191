// Words to the user: notes, warnings and errors on stderr, one line each.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdio>
#include <string>
#include <string_view>

#include "base/result.h"

namespace ridge {

inline constexpr int kExitOk = 0, kExitFailed = 1, kExitUsage = 2;

// Writes all of `text`; never throws. What could not be written shows in ferror(stream).
void put(std::FILE* stream, std::string_view text);

void note(const std::string& message);     // "ridge: ..."
void warning(const std::string& message);  // "ridge: warning: ..."
// Prints the error and returns the exit code that belongs to it.
int fail(const Error& error);

// A line on stderr that is drawn over by the next one; nothing unless stderr is a terminal.
class ProgressLine {
 public:
  void show(const std::string& what, double share);
  void clear();
  ~ProgressLine() { clear(); }

 private:
  bool drawn_ = false;
  int last_percent_ = -1;
};

}  // namespace ridge
