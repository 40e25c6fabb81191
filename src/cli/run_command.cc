// ridge run: one generation, then the table.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <random>

#include "cli/commands.h"
#include "cli/input.h"
#include "cli/report.h"
#include "cli/run_options.h"
#include "cli/terminal.h"
#include "text/utf8_stream.h"

namespace ridge {

namespace {

Result<std::string> read_prompt(const RunFlags& flags) {
  if (int{flags.has_prompt} + int{!flags.prompt_file.empty()} + int{!flags.source.empty()} > 1)
    return Error{ErrorCode::usage, "-p, -f and - exclude one another"};
  if (flags.has_prompt) return flags.prompt;
  return read_text(flags.prompt_file);
}

Result<std::vector<TokenId>> encode_prompt(const RunFlags& flags, const Model& model,
                                           const std::string& prompt) {
  if (flags.raw || model.chat_template_source().empty()) {
    if (!flags.raw && !flags.json)
      note("the model has no chat template: the prompt is continued as it is (--raw)");
    return model.tokenizer().encode(prompt);
  }
  RIDGE_TRY(const ChatTemplate chat, ChatTemplate::create(model.chat_template_source()));
  std::vector<ChatMessage> messages;
  if (!flags.system.empty()) messages.push_back({"system", flags.system});
  messages.push_back({"user", prompt});
  return model.tokenizer().encode_spans(chat.render(messages, true), true);
}

Result<int> run(RunFlags flags) {
  RIDGE_TRY(const std::string prompt, read_prompt(flags));
  if (prompt.empty())
    return Error{ErrorCode::invalid_input,
                 "the prompt is empty (give -p TEXT, -f FILE, or text on standard input)"};
  if (!is_valid_utf8(prompt))
    return Error{ErrorCode::invalid_input, "the prompt is not valid UTF-8"};
  flags.sampling.seed = flags.seed.value_or(std::random_device{}());
  RIDGE_TRY(const std::unique_ptr<Workbench> bench, set_up(flags));
  RIDGE_RETURN_IF_ERROR(bench->session->check_bytes(prompt.size()));
  RIDGE_TRY(const std::vector<TokenId> ids, encode_prompt(flags, *bench->model, prompt));
  RIDGE_RETURN_IF_ERROR(bench->session->check_room(static_cast<int64_t>(ids.size())));
  announce(*bench, flags);
  install_interrupt_handler();

  const GenerateOptions options{.max_tokens = flags.max_tokens,
                                .sampling = flags.sampling,
                                .stops = flags.stops,
                                .ignore_eos = flags.ignore_eos,
                                .hash_logits = flags.verbose};
  const auto show = [&](const std::string& text) {
    if (flags.json) return;
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
  };
  RIDGE_TRY(const Generation generation, bench->session->generate(ids, options, show, g_cancelled));
  if (!flags.json) put(stdout, "\n");
  std::fflush(stdout);
  hold_the_law(*bench, flags);
  if (flags.json) {
    put(stdout, fmt::format("{}\n", run_json(*bench, flags, ids.size(), generation)));
  } else {
    put(stderr, run_table(*bench, flags, generation));
  }
  return kExitOk;
}

}  // namespace

Command add_run_command(CLI::App& app) {
  auto* sub = app.add_subcommand("run", "Generate text once, then show what it cost.");
  sub->footer("Example: ridge run model.gguf -p 'Why is the sky blue?' -n 128 --temp 0");
  auto flags = std::make_shared<RunFlags>();
  add_generation_flags(*sub, *flags);
  sub->add_option("SOURCE", flags->source, "-: read the prompt from standard input")
      ->check(CLI::IsMember({"-"}));
  auto* prompt = sub->add_option("-p,--prompt", flags->prompt, "the prompt");
  sub->add_option("-f,--file", flags->prompt_file,
                  "read the prompt from a file; -: standard input");
  sub->add_flag("--raw", flags->raw, "continue the prompt as it is, without a chat template");
  sub->add_flag("--json", flags->json, "print one JSON object instead");
  return [flags, prompt] {
    flags->has_prompt = prompt->count() > 0;
    const Result<int> code = run(*flags);
    return code ? *code : fail(code.error());
  };
}

}  // namespace ridge
