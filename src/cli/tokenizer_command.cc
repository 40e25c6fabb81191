// ridge tokenizer encode | decode
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/input.h"
#include "cli/terminal.h"
#include "engine/tokenizer_from_gguf.h"
#include "text/utf8_stream.h"

namespace ridge {

namespace {

struct TokenizerFlags {
  std::string model, pre, text;
  std::vector<std::string> ids;
  bool has_text = false, no_special = false, parse_special = false, json = false;
};

Result<std::unique_ptr<const Tokenizer>> open_tokenizer(const TokenizerFlags& flags) {
  RIDGE_TRY(const GgufFile file, GgufFile::open(flags.model));
  return tokenizer_from_gguf(file, flags.pre);
}

Result<int> encode(const TokenizerFlags& flags) {
  RIDGE_TRY(const auto tokenizer, open_tokenizer(flags));
  std::string text = flags.text;
  if (!flags.has_text) {
    RIDGE_TRY(text, read_text("-"));
  }
  const std::vector<TokenId> ids = tokenizer->encode(
      text, {.add_special = !flags.no_special, .parse_special = flags.parse_special});
  if (flags.json) {
    nlohmann::ordered_json json{{"ids", ids}, {"pieces", nlohmann::ordered_json::array()}};
    for (const TokenId id : ids)
      json["pieces"].push_back(to_valid_utf8(tokenizer->piece(id, true)));
    put(stdout, fmt::format("{}\n", json.dump()));
  } else {
    put(stdout, fmt::format("{}\n", fmt::join(ids, " ")));
  }
  return kExitOk;
}

Result<TokenId> parse_id(std::string_view text, int64_t vocab_size) {
  TokenId id = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), id);
  if (error != std::errc() || end != text.data() + text.size() || id < 0 || id >= vocab_size)
    return Error{ErrorCode::invalid_input,
                 fmt::format("'{}' is not a token id: expected a number from 0 to {}", text,
                             vocab_size - 1)};
  return id;
}

Result<int> decode(const TokenizerFlags& flags) {
  RIDGE_TRY(const auto tokenizer, open_tokenizer(flags));
  std::vector<std::string> words = flags.ids;
  if (words.empty()) {
    std::string word;
    RIDGE_TRY(const std::string text, read_text("-"));
    for (const char c : text + " ") {
      const bool separates = std::string_view(" \t\r\n,[]").find(c) != std::string_view::npos;
      if (!separates) word += c;
      if (separates && !word.empty()) words.push_back(std::exchange(word, {}));
    }
  }
  std::vector<TokenId> ids;
  for (const std::string& text : words) {
    RIDGE_TRY(const TokenId id, parse_id(text, tokenizer->vocab_size()));
    ids.push_back(id);
  }
  const std::string text = tokenizer->decode(ids, !flags.no_special);
  if (flags.json)
    put(stdout, fmt::format("{}\n", nlohmann::ordered_json{{"text", to_valid_utf8(text)}}.dump()));
  else
    put(stdout, fmt::format("{}\n", to_valid_utf8(text)));
  return kExitOk;
}

Command as_command(const std::shared_ptr<TokenizerFlags>& flags,
                   Result<int> (*run)(const TokenizerFlags&)) {
  return [flags, run] {
    const Result<int> code = run(*flags);
    return code ? *code : fail(code.error());
  };
}

void add_common(CLI::App& sub, TokenizerFlags& flags) {
  sub.add_option("MODEL", flags.model, "GGUF file")->required();
  sub.add_option("--pre", flags.pre, "pre-tokeniser, if the file names none that is known");
  sub.add_flag("--json", flags.json, "print one JSON object");
}

}  // namespace

Command add_tokenizer_command(CLI::App& app) {
  auto* sub = app.add_subcommand("tokenizer", "Text to token ids, and back.");
  sub->require_subcommand(1);
  auto flags = std::make_shared<TokenizerFlags>();

  auto* enc = sub->add_subcommand("encode", "Print the token ids of a text.");
  enc->footer("Example: ridge tokenizer encode model.gguf -p 'Hello' --json");
  add_common(*enc, *flags);
  auto* text = enc->add_option("-p,--prompt", flags->text, "the text (default: standard input)");
  enc->add_flag("--no-special", flags->no_special, "add no BOS or EOS");
  enc->add_flag("--parse-special", flags->parse_special,
                "text that spells a control token becomes that token");

  auto* dec = sub->add_subcommand("decode", "Print the text of token ids.");
  dec->footer("Example: ridge tokenizer decode model.gguf 19556 905");
  add_common(*dec, *flags);
  dec->add_option("IDS", flags->ids, "token ids (default: standard input)");
  dec->add_flag("--no-special", flags->no_special, "leave control tokens out");

  return [=] {
    flags->has_text = text->count() > 0;
    return enc->parsed() ? as_command(flags, encode)() : as_command(flags, decode)();
  };
}

}  // namespace ridge
