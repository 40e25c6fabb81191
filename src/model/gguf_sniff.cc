// SPDX-License-Identifier: Apache-2.0
#include "model/gguf_sniff.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <string_view>

namespace ridge {
namespace {

bool starts_with_any_case(std::string_view text, std::string_view lower_prefix) {
  return text.size() >= lower_prefix.size() &&
         std::equal(lower_prefix.begin(), lower_prefix.end(), text.begin(), [](char a, char b) {
           return a == std::tolower(static_cast<unsigned char>(b));
         });
}

// safetensors: a little-endian u64 header length, then a JSON object.
bool is_safetensors(std::string_view text) {
  return text.size() > 9 && text[8] == '{' && text[6] == 0 && text[7] == 0;
}

bool is_old_ggml(std::string_view text) {
  for (std::string_view magic : {"lmgg", "fmgg", "tjgg", "algg"}) {
    if (text.starts_with(magic)) return true;
  }
  return false;
}

}  // namespace

std::string what_it_looks_like(std::span<const std::byte> bytes) {
  constexpr size_t kHead = 256;
  std::string_view text(reinterpret_cast<const char*>(bytes.data()), std::min(bytes.size(), kHead));
  if (is_safetensors(text)) return "it looks like a safetensors file: convert it to GGUF first";
  if (text.starts_with("PK\x03\x04")) {
    return "it looks like a zip archive or a PyTorch checkpoint: convert it to GGUF first";
  }
  if (text.starts_with("\x80\x02")) return "it looks like a Python pickle, which is never read";
  if (text.starts_with("version https://git-lfs")) {
    return "it is a Git LFS pointer, not the file itself: fetch it with git lfs pull";
  }
  if (is_old_ggml(text)) return "it looks like a GGML file from before GGUF: convert it again";
  if (text.starts_with("\x1f\x8b")) return "it looks like a gzip file: unpack it first";
  text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
  for (std::string_view tag : {"<!doctype html", "<html", "<?xml", "<head", "<body"}) {
    if (starts_with_any_case(text, tag)) {
      return "it looks like a web page: the download went wrong";
    }
  }
  if (text.starts_with("{")) return "it looks like JSON";
  std::string hex;
  for (std::byte b : bytes.first(std::min<size_t>(bytes.size(), 4))) {
    hex += fmt::format(" {:02x}", std::to_integer<int>(b));
  }
  return "it starts with" + hex;
}

}  // namespace ridge
