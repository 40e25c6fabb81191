// ridge chat: a conversation in the terminal. The KV cache stays between turns.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <memory>
#include <random>

#include "cli/commands.h"
#include "cli/report.h"
#include "cli/run_options.h"
#include "cli/terminal.h"
#include "engine/chat_encoding.h"
#include "text/utf8_stream.h"

namespace ridge {

namespace {

constexpr const char* kHelp =
    "/help          this list\n"
    "/clear         forget the conversation\n"
    "/stats         the table of the last answer\n"
    "/save FILE     write the conversation as JSON\n"
    "/quit          end (also Ctrl-D); Ctrl-C ends an answer\n";

class Chat {
 public:
  Chat(Workbench& bench, const RunFlags& flags, ChatTemplate chat_template)
      : bench_(bench), flags_(flags), template_(chat_template) {
    clear();
  }

  int loop() {
    const bool interactive = isatty(STDIN_FILENO) == 1;
    if (interactive) note("/help lists the commands");
    for (std::string line;;) {
      if (interactive) put(stderr, "> ");
      if (!std::getline(std::cin, line)) break;
      if (line.empty()) continue;
      if (line == "/quit") break;
      if (line[0] == '/')
        command(line);
      else if (const Status status = turn(line); !status)
        fail(status.error());
    }
    if (interactive) put(stderr, "\n");
    return kExitOk;
  }

 private:
  void clear() {
    messages_.clear();
    if (!flags_.system.empty()) messages_.push_back({"system", flags_.system});
    bench_.session->truncate(0);
    seen_bytes_ = 0;
  }

  void command(const std::string& line) {
    if (line == "/help") {
      put(stderr, kHelp);
    } else if (line == "/clear") {
      clear();
    } else if (line == "/stats") {
      put(stderr, run_table(bench_, flags_, last_));
    } else if (line == "/save") {
      note("/save needs a file name");
    } else if (line.starts_with("/save ")) {
      const Status status = save_conversation(line.substr(6), flags_, messages_);
      if (!status) fail(status.error());
    } else {
      note("unknown command '" + line + "'; /help lists them");
    }
  }

  Status turn(const std::string& text) {
    if (!is_valid_utf8(text))
      return Error{ErrorCode::invalid_input, "the message is not valid UTF-8"};
    messages_.push_back({"user", text});
    // What the cache holds stays; only the template's text since then is tokenised and prefilled.
    const std::vector<ChatSpan> spans = template_.render(messages_, true);
    const std::vector<TokenId> ids =
        bench_.model->tokenizer().encode_spans(drop_prefix(spans, seen_bytes_), seen_bytes_ == 0);
    const auto length = static_cast<int64_t>(bench_.session->tokens().size() + ids.size());
    if (length > bench_.session->context()) {
      messages_.pop_back();
      return Error{ErrorCode::invalid_input,
                   fmt::format("with this message the conversation has {} tokens and the context "
                               "holds {}: /clear forgets it, --ctx makes room for more",
                               length, bench_.session->context())};
    }
    bench_.book->clear();
    g_cancelled = false;
    install_interrupt_handler();
    const auto before = static_cast<int64_t>(bench_.session->tokens().size());
    const GenerateOptions options{.max_tokens = flags_.max_tokens,
                                  .sampling = flags_.sampling,
                                  .stops = flags_.stops,
                                  .ignore_eos = flags_.ignore_eos,
                                  .hash_logits = flags_.verbose};
    const auto show = [](const std::string& piece) {
      std::fwrite(piece.data(), 1, piece.size(), stdout);
      std::fflush(stdout);
    };
    Result<Generation> generation = bench_.session->generate(ids, options, show, g_cancelled);
    remove_interrupt_handler();
    if (!generation) {  // the turn did not happen
      messages_.pop_back();
      bench_.session->truncate(before);
      return generation.error();
    }
    put(stdout, "\n");
    std::fflush(stdout);
    if (generation->tokens.empty()) {  // ended while the prompt was read: the turn did not happen
      messages_.pop_back();
      bench_.session->truncate(before);
      return {};
    }
    settle(spans, before + static_cast<int64_t>(ids.size()), *generation);
    last_ = std::move(*generation);
    hold_the_law(bench_, flags_);
    return {};
  }

  // What stays in the cache must be what the template will render: the ending token is written by
  // the template, so it is taken back; and where the tokens spell more than the text that was shown
  // (a stop string, a broken character), the answer is tokenised again next time.
  void settle(const std::vector<ChatSpan>& spans, int64_t prompt_end,
              const Generation& generation) {
    messages_.push_back({"assistant", generation.text});
    std::vector<TokenId> answer = generation.tokens;
    const Tokenizer& tokenizer = bench_.model->tokenizer();
    if (!answer.empty() && tokenizer.ends_generation(answer.back())) answer.pop_back();
    const bool same = tokenizer.decode(answer) == generation.text;
    seen_bytes_ = text_bytes(spans) + (same ? generation.text.size() : 0);
    bench_.session->truncate(prompt_end + (same ? static_cast<int64_t>(answer.size()) : 0));
  }

  Workbench& bench_;
  const RunFlags& flags_;
  ChatTemplate template_;
  std::vector<ChatMessage> messages_;
  size_t seen_bytes_ = 0;  // of the rendered conversation that the session's tokens stand for
  Generation last_;
};

Result<int> chat(RunFlags flags) {
  flags.sampling.seed = flags.seed.value_or(std::random_device{}());
  flags.chat = true;
  RIDGE_TRY(const std::unique_ptr<Workbench> bench, set_up(flags));
  RIDGE_TRY(ChatTemplate chat_template, ChatTemplate::create(bench->model->chat_template_source()));
  announce(*bench, flags);
  return Chat(*bench, flags, chat_template).loop();
}

}  // namespace

Command add_chat_command(CLI::App& app) {
  auto* sub = app.add_subcommand("chat", "Talk with an instruct model in the terminal.");
  sub->footer("Example: ridge chat model.gguf --temp 0.2");
  auto flags = std::make_shared<RunFlags>();
  add_generation_flags(*sub, *flags);
  return [flags] {
    const Result<int> code = chat(*flags);
    return code ? *code : fail(code.error());
  };
}

}  // namespace ridge
