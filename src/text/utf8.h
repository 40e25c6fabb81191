// One step of UTF-8 decoding, the only place that knows its well-formed byte sequences (Unicode 15,
// table 3-7). Ill-formed input is cut into maximal subparts, as Python and the WHATWG do.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace ridge {

struct Utf8Step {
  size_t length = 0;        // bytes of the character, or of the maximal ill-formed subpart
  bool valid = false;       // a whole character
  bool incomplete = false;  // the text ends inside what may still become a character
};

// The step at text[at]; `at` must be less than text.size().
inline Utf8Step utf8_step(std::string_view text, size_t at) {
  auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t lead = byte(at);
  if (lead < 0x80) return {1, true, false};
  size_t want = 0;
  uint8_t low = 0x80, high = 0xbf;  // the range of the second byte
  if (lead >= 0xc2 && lead <= 0xdf) {
    want = 2;
  } else if (lead >= 0xe0 && lead <= 0xef) {
    want = 3;
    if (lead == 0xe0) low = 0xa0;   // no overlong forms
    if (lead == 0xed) high = 0x9f;  // no surrogates
  } else if (lead >= 0xf0 && lead <= 0xf4) {
    want = 4;
    if (lead == 0xf0) low = 0x90;   // no overlong forms
    if (lead == 0xf4) high = 0x8f;  // nothing past U+10FFFF
  } else {
    return {1, false, false};
  }
  for (size_t i = 1; i < want; ++i) {
    if (at + i == text.size()) return {i, false, true};
    if (byte(at + i) < low || byte(at + i) > high) return {i, false, false};
    low = 0x80;
    high = 0xbf;
  }
  return {want, true, false};
}

}  // namespace ridge
