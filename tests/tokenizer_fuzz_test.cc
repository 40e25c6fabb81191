// The tokenizer fuzz target on a fixed corpus of random and of hand-made inputs.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "base/rng.h"

// fuzz/tokenizer_fuzz.cc under the name that tests/CMakeLists.txt gives it.
extern "C" int tokenizer_fuzz_one_input(const uint8_t* data, size_t size);

namespace ridge {
namespace {

void run(const std::string& input) {
  tokenizer_fuzz_one_input(reinterpret_cast<const uint8_t*>(input.data()), input.size());
}

TEST(FuzzTokenizer, random_inputs_neither_crash_nor_lose_text) {
  Rng rng(2026);
  const std::string alphabet =
      " ab\n<>\xe2\x96\x81\xff\xe4\xb8\xad"
      "09'";
  for (int round = 0; round < 3000; ++round) {
    std::string input;
    for (size_t i = 0, size = rng.below(400); i < size; ++i) {
      const bool any = rng.below(2) == 0;
      input.push_back(any ? static_cast<char>(rng.below(256))
                          : alphabet[rng.below(alphabet.size())]);
    }
    run(input);
  }
}

TEST(FuzzTokenizer, hand_made_inputs_neither_crash_nor_lose_text) {
  for (std::string input : {std::string(), std::string(1, '\0'), std::string("\x01\x04", 2),
                            std::string("\x04\x00\x01\x40\x00"
                                        "ab c",
                                        9),
                            std::string(5000, 'a')}) {
    run(input);
  }
  for (int flags = 0; flags < 256; ++flags)
    run(std::string(1, static_cast<char>(flags)) + "\x01xyz");
}

}  // namespace
}  // namespace ridge
