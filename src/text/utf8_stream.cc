// SPDX-License-Identifier: Apache-2.0
#include "text/utf8_stream.h"

#include "text/utf8.h"

namespace ridge {
namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";  // U+FFFD

// Appends the certain part of `bytes` to `out`; returns how many bytes that was.
size_t append_valid(std::string_view bytes, std::string& out) {
  size_t run_begin = 0, at = 0;
  while (at < bytes.size()) {
    const Utf8Step step = utf8_step(bytes, at);
    if (!step.valid) {
      out.append(bytes, run_begin, at - run_begin);
      if (step.incomplete) return at;
      out.append(kReplacement);
      run_begin = at + step.length;
    }
    at += step.length;
  }
  out.append(bytes, run_begin, at - run_begin);
  return at;
}

}  // namespace

std::string Utf8Stream::push(std::string_view bytes) {
  std::string out;
  if (pending_.empty()) {
    const size_t used = append_valid(bytes, out);
    pending_.assign(bytes.substr(used));
    return out;
  }
  pending_.append(bytes);
  const size_t used = append_valid(pending_, out);
  pending_.erase(0, used);
  return out;
}

std::string Utf8Stream::finish() {
  // What is pending is one viable prefix of a character: one maximal subpart.
  std::string out(pending_.empty() ? std::string_view() : kReplacement);
  pending_.clear();
  return out;
}

std::string to_valid_utf8(std::string_view bytes) {
  Utf8Stream stream;
  std::string out = stream.push(bytes);
  out += stream.finish();
  return out;
}

bool is_valid_utf8(std::string_view bytes) {
  for (size_t at = 0; at < bytes.size();) {
    const Utf8Step step = utf8_step(bytes, at);
    if (!step.valid) return false;
    at += step.length;
  }
  return true;
}

}  // namespace ridge
