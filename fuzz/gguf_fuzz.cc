// libFuzzer target: a GGUF file of any bytes gives a model or an error, never a crash, and every
// tensor that it returns can be read to its last byte. Without libFuzzer,
// tests/hostile_gguf_test.cc calls the same function.
// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>

#include "model/gguf.h"
#include "model/spec_from_gguf.h"
#include "model/weight_table.h"

namespace {

// Keeps reads from being optimised away.
volatile unsigned sink;

void touch_ends(const ridge::TensorView& view) {
  sink = sink + std::to_integer<unsigned>(view.data[0]);
  sink = sink + std::to_integer<unsigned>(view.data[view.bytes() - 1]);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
  const auto file = ridge::GgufFile::parse(bytes, "fuzz.gguf");
  if (!file) {
    if (file.error().message.empty()) __builtin_trap();
    return 0;
  }
  for (const ridge::GgufTensor& tensor : file->tensors()) {
    touch_ends(tensor.view);
    if (file->find(tensor.name) != &tensor) __builtin_trap();
    (void)ridge::check_finite(tensor);
  }
  const auto spec = ridge::spec_from_gguf(*file);
  if (!spec && spec.error().message.empty()) __builtin_trap();
  return 0;
}
