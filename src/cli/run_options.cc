// SPDX-License-Identifier: Apache-2.0
#include "cli/run_options.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstring>
#include <random>

#include "base/clock.h"
#include "cli/machine_command.h"
#include "cli/terminal.h"
#include "engine/machine_load.h"
#include "engine/session_plan.h"

namespace ridge {

std::atomic<bool> g_cancelled{false};

namespace {

void on_interrupt(int) {
  // The second one ends the process at once.
  g_cancelled = true;
  std::signal(SIGINT, SIG_DFL);
}

void on_bus_error(int) {
  constexpr char kMessage[] =
      "ridge: error: the model file changed or shrank while it was being read\n";
  [[maybe_unused]] const auto written = write(STDERR_FILENO, kMessage, sizeof kMessage - 1);
  _exit(kExitFailed);
}

// CLI11's own Range lets NaN through, and its unsigned parser takes -1.
CLI::Validator finite_range(double low, double high) {
  return {[=](std::string& text) -> std::string {
            double value = 0;
            const bool is_number = CLI::detail::lexical_cast(text, value);
            if (is_number && value >= low && value <= high) return {};
            return fmt::format("'{}' is not a number from {} to {}", text, low, high);
          },
          fmt::format("[{} - {}]", low, high)};
}

CLI::Validator whole_number() {
  return {[](std::string& text) -> std::string {
            const bool digits = !text.empty() && text.size() <= 20 &&
                                text.find_first_not_of("0123456789") == std::string::npos;
            if (digits) return {};
            return fmt::format("'{}' is not a whole number from 0 to 2^64 - 1", text);
          },
          "WHOLE"};
}

// Memory that is free, or a cautious guess where the system does not say.
int64_t free_bytes() {
  constexpr int64_t kGuess = int64_t{4} << 30;
  const int64_t available = available_memory();
  return available > 0 ? available : kGuess;
}

// Refuses at once what would fail after a long load.
Status check_file(const RunFlags& flags, const GgufFile& file) {
  RIDGE_TRY(const ModelFacts facts, model_facts(file));
  int64_t bytes = 0;
  for (const Weight& w : weights_of(facts.program)) bytes += w.bytes();
  if (bytes > free_bytes())
    return Error{
        ErrorCode::not_supported,
        fmt::format("{}: the weights take {:.2f} GB and {:.2f} GB of memory are free", flags.model,
                    static_cast<double>(bytes) * 1e-9, static_cast<double>(free_bytes()) * 1e-9)};
  const bool has_template = file.has("tokenizer.chat_template");
  if (flags.chat && !has_template)
    return Error{ErrorCode::not_supported,
                 flags.model +
                     ": the model has no chat template, so it cannot chat; "
                     "'ridge run --raw' continues text with it"};
  if (!flags.raw && has_template) {
    RIDGE_TRY(const std::string source, file.string("tokenizer.chat_template"));
    RIDGE_TRY([[maybe_unused]] const ChatTemplate chat, ChatTemplate::create(source));
  } else if (!flags.system.empty()) {
    return Error{ErrorCode::usage,
                 "--system needs a chat template, which --raw and base models do without"};
  }
  return {};
}

void choose_threads(const RunFlags& flags, Workbench& bench) {
  if (flags.threads > 0) {
    bench.prefill_threads = bench.decode_threads = static_cast<int>(flags.threads);
    if (flags.threads > bench.machine.usable_cpus)
      warning(fmt::format("--threads {} on {} CPUs: they will wait for one another", flags.threads,
                          bench.machine.usable_cpus));
    return;
  }
  bench.prefill_threads = bench.machine.prefill_threads();
  bench.decode_threads = bench.machine.decode_threads();
}

}  // namespace

void install_interrupt_handler() { std::signal(SIGINT, on_interrupt); }

void remove_interrupt_handler() { std::signal(SIGINT, SIG_DFL); }

void install_bus_error_handler() { std::signal(SIGBUS, on_bus_error); }

void add_generation_flags(CLI::App& app, RunFlags& f) {
  app.add_option("MODEL", f.model, "GGUF file (the first part of a split one)")->required();
  app.add_option("-n,--max-tokens", f.max_tokens,
                 "tokens to generate; -1: until the context is full")
      ->check(CLI::Range(int64_t{-1}, int64_t{1} << 40));
  app.add_option("--ctx", f.context,
                 "context in tokens (default: what memory allows, up to the model's limit)")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 31));
  app.add_option("--threads", f.threads, "threads (default: from the measured bandwidth curve)")
      ->check(CLI::Range(1, 1024));
  app.add_option("--seed", f.seed, "seed of the sampler (default: random)")->check(whole_number());
  auto& s = f.sampling;
  app.add_option("--temp", s.temperature, "temperature, 0: greedy")
      ->check(finite_range(0.0, 100.0))
      ->capture_default_str();
  app.add_option("--top-k", s.top_k, "keep the k best tokens, 0: off")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 31))
      ->capture_default_str();
  app.add_option("--top-p", s.top_p, "keep the best tokens of this total probability, 1: off")
      ->check(finite_range(0.0, 1.0))
      ->capture_default_str();
  app.add_option("--min-p", s.min_p, "drop tokens less likely than this share of the best, 0: off")
      ->check(finite_range(0.0, 1.0))
      ->capture_default_str();
  app.add_option("--repeat-penalty", s.repetition_penalty, "divides logits of tokens seen, 1: off")
      ->check(finite_range(0.01, 100.0))
      ->capture_default_str();
  app.add_option("--frequency-penalty", s.frequency_penalty, "subtracted per occurrence")
      ->check(finite_range(-100.0, 100.0))
      ->capture_default_str();
  app.add_option("--presence-penalty", s.presence_penalty, "subtracted once if seen")
      ->check(finite_range(-100.0, 100.0))
      ->capture_default_str();
  app.add_option("--penalty-window", s.penalty_window, "last tokens that the penalties look at")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 31))
      ->capture_default_str();
  app.add_option("--stop", f.stops, "end before this text (may be given several times)")
      ->check(CLI::Validator(
          [](std::string& text) -> std::string {
            return text.empty() ? "a stop text must not be empty" : "";
          },
          "TEXT"))
      ->allow_extra_args(false);
  app.add_option("--system", f.system, "system message for the chat template");
  app.add_option("--pre", f.pre, "pre-tokeniser, if the file names none that is known");
  app.add_option("--kv", f.kv_type, "KV cache type (default: f16, f32 with --exact)")
      ->check(CLI::IsMember({"f16", "f32"}));
  app.add_flag("--ignore-eos", f.ignore_eos, "generate on past the end of the turn");
  app.add_flag("--exact", f.exact, "fp32 activations and KV cache, for comparison with an oracle");
  app.add_flag("--profile", f.profile, "add a row per kind of op to the table");
  app.add_flag("--verbose", f.verbose, "print a hash of the logits, for comparing two runs");
}

Result<std::unique_ptr<Workbench>> set_up(const RunFlags& flags) {
  auto bench = std::make_unique<Workbench>();
  RIDGE_TRY(bench->isa, selected_isa());
  // The file first: a wrong path should not wait for a measurement.
  RIDGE_TRY(const GgufFile file, GgufFile::open(flags.model));
  RIDGE_RETURN_IF_ERROR(check_file(flags, file));
  bench->machine = known_machine(bench->isa, false);
  choose_threads(flags, *bench);
  bench->pool =
      std::make_unique<ThreadPool>(std::max(bench->prefill_threads, bench->decode_threads));

  const Seconds start = now();
  ProgressLine progress;
  ModelOptions options{.pre_override = flags.pre, .exact = flags.exact};
  if (!flags.kv_type.empty()) options.kv_dtype = flags.kv_type == "f32" ? DType::f32 : DType::f16;
  RIDGE_TRY(
      bench->model, Model::load(file, options, *bench->pool, [&](int64_t done, int64_t total) {
        progress.show("repacking weights", static_cast<double>(done) / static_cast<double>(total));
      }));
  progress.clear();
  RIDGE_TRY(const SessionPlan plan, plan_session(*bench->model,
                                                 {.isa = bench->isa,
                                                  .prefill_threads = bench->prefill_threads,
                                                  .decode_threads = bench->decode_threads},
                                                 flags.context, free_bytes()));
  if (flags.context > bench->model->spec().context_length)
    warning(fmt::format("--ctx {} is beyond the {} tokens the model was made for", flags.context,
                        bench->model->spec().context_length));
  bench->context_why = plan.context_why;
  bench->prefill_device = device_of(bench->machine, bench->prefill_threads, flags.exact);
  bench->decode_device = device_of(bench->machine, bench->decode_threads, flags.exact);
  bench->book =
      std::make_unique<Book>(bench->model->fused(), bench->prefill_device, bench->decode_device);
  bench->session =
      std::make_unique<Session>(*bench->model, *bench->pool, *bench->book, plan.options);
  bench->load_time = now() - start;
  return bench;
}

void announce(const Workbench& bench, const RunFlags& flags) {
  if (flags.json) return;
  note(fmt::format(
      "context {} tokens ({}; KV cache up to {:.0f} MB), threads: {} prefill, {} decode ({}), {}",
      bench.session->context(), bench.context_why,
      static_cast<double>(bench.session->kv_bytes()) * 1e-6, bench.prefill_threads,
      bench.decode_threads,
      flags.threads > 0 ? "--threads" : "all cores; the fewest that reach the full bandwidth",
      name_of(bench.isa)));
}

}  // namespace ridge
