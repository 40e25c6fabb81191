// libFuzzer target: any tokenizer metadata and any text give ids in range or an error, never a
// crash; and where the vocabulary has every byte, decoding gives back the text. Without libFuzzer,
// tests/tokenizer_fuzz_test.cc calls the same function.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "text/chat_template.h"
#include "text/stop_filter.h"
#include "text/tokenizer.h"
#include "text/utf8_stream.h"

namespace {

using ridge::TokenId;
using ridge::TokenKind;

// Takes the input apart; gives zeros when it is used up.
class Bytes {
 public:
  Bytes(const uint8_t* data, size_t size) : data_(data), size_(size) {}
  uint8_t byte() {
    if (size_ == 0) return 0;
    --size_;
    return *data_++;
  }
  std::string text(size_t length) {
    length = std::min(length, size_);
    std::string out(reinterpret_cast<const char*>(data_), length);
    data_ += length;
    size_ -= length;
    return out;
  }
  std::string rest() { return text(size_); }

 private:
  const uint8_t* data_;
  size_t size_;
};

std::string bpe_letter(int byte) {
  const bool itself = (byte >= 33 && byte <= 126) || (byte >= 161 && byte != 173);
  int code = byte;
  if (!itself) code = 256 + (byte <= 32 ? byte : byte < 161 ? byte - 94 : 67);
  if (code < 0x80) return {static_cast<char>(code)};
  return {static_cast<char>(0xc0 | code >> 6), static_cast<char>(0x80 | (code & 0x3f))};
}

std::string byte_token(int byte) {
  const char* digits = "0123456789ABCDEF";
  return {'<', '0', 'x', digits[byte >> 4], digits[byte & 15], '>'};
}

void add(ridge::TokenizerSpec& spec, std::string text, TokenKind kind, float score) {
  spec.tokens.push_back(std::move(text));
  spec.kinds.push_back(kind);
  spec.scores.push_back(score);
}

void add_bytes(ridge::TokenizerSpec& spec) {
  const bool bpe = spec.model == ridge::TokenizerModel::bpe;
  for (int byte = 0; byte < 256; ++byte) {
    add(spec, bpe ? bpe_letter(byte) : byte_token(byte), bpe ? TokenKind::normal : TokenKind::byte,
        0);
  }
}

void add_tokens(ridge::TokenizerSpec& spec, Bytes& bytes) {
  for (int left = bytes.byte() % 40; left > 0; --left) {
    const uint8_t how = bytes.byte();
    float score = static_cast<float>(static_cast<int8_t>(bytes.byte()));
    if (how == 0xff) {
      const std::string bits = bytes.text(sizeof score);
      std::memcpy(&score, bits.data(), bits.size());
    }
    // Mostly normal tokens; some of each other kind, and some of none.
    const int kind = how & 8 ? 1 : how % 8;
    std::string text = bytes.text(how >> 4);
    if ((how & 4) && spec.tokens.size() > 1) {  // joins two tokens, and merges them
      const std::string& a = spec.tokens[bytes.byte() % spec.tokens.size()];
      const std::string& b = spec.tokens[bytes.byte() % spec.tokens.size()];
      spec.merges.push_back(a + " " + b);
      text = a + b;
    }
    add(spec, std::move(text), static_cast<TokenKind>(kind), score);
  }
}

ridge::TokenizerSpec make_spec(Bytes& bytes, bool& byte_complete) {
  ridge::TokenizerSpec spec;
  const uint8_t flags = bytes.byte();
  spec.model = flags & 1 ? ridge::TokenizerModel::bpe : ridge::TokenizerModel::spm;
  byte_complete = !(flags & 2);
  if (byte_complete) add_bytes(spec);
  const auto names = ridge::known_pre_tokenizers();
  const size_t pre = bytes.byte() % (names.size() + 1);
  if (pre < names.size()) spec.pre = names[pre];
  spec.add_space_prefix = flags & 4;
  add_tokens(spec, bytes);
  auto id = [&] { return static_cast<TokenId>(bytes.byte()) * 2 - 2; };
  if (flags & 8) spec.bos = id();
  if (flags & 16) spec.eos = id();
  if (flags & 32) spec.unknown = id();
  spec.add_bos = flags & 64;
  spec.add_eos = flags & 128;
  if (bytes.byte() == 1) spec.merges.push_back(bytes.text(bytes.byte() % 8));
  if (spec.model == ridge::TokenizerModel::bpe) spec.scores.clear();
  return spec;
}

void require(bool holds) {
  if (!holds) __builtin_trap();
}

void check_ids(const ridge::Tokenizer& tokenizer, const std::vector<TokenId>& ids) {
  for (TokenId id : ids) require(id >= 0 && id < tokenizer.vocab_size());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Bytes bytes(data, size);
  bool byte_complete = false;
  auto made = ridge::Tokenizer::create(make_spec(bytes, byte_complete));
  const std::string text = bytes.rest();
  require(ridge::is_valid_utf8(ridge::to_valid_utf8(text)));
  if (!made) {
    require(ridge::is_valid_utf8(made.error().message) && !made.error().message.empty());
    return 0;
  }
  const ridge::Tokenizer& tokenizer = **made;
  for (int options = 0; options < 4; ++options) {
    check_ids(tokenizer, tokenizer.encode(text, {(options & 1) != 0, (options & 2) != 0}));
  }
  const size_t half = text.size() / 2;
  check_ids(tokenizer,
            tokenizer.encode_spans({{text.substr(0, half), false}, {text.substr(half), true}}));
  // SPM reads U+2581 as a space: only text without it comes back.
  const bool marked = text.find("\xe2\x96\x81") != std::string::npos;
  if (byte_complete && !marked) {
    require(tokenizer.decode(tokenizer.encode(text, {false, false})) == text);
  }
  return 0;
}
