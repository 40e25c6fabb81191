// Flags that run and chat share, and what they set up: threads, machine, model, session.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/machine.h"
#include "engine/session.h"

namespace CLI {
class App;
}

namespace ridge {

struct RunFlags {
  std::string model;
  std::string prompt, prompt_file;
  std::string source;  // "-": standard input
  bool has_prompt = false;
  std::string system;
  int64_t max_tokens = -1;
  int64_t context = 0;  // 0: what memory allows
  int64_t threads = 0;  // 0: from the measured curves
  std::optional<uint64_t> seed;
  SamplingParams sampling;
  std::vector<std::string> stops;
  std::string pre;
  std::string kv_type;
  bool chat = false;  // a template is needed
  bool raw = false, ignore_eos = false, json = false, exact = false, profile = false,
       verbose = false;
};

// Adds the flags to a subcommand.
void add_generation_flags(CLI::App& app, RunFlags& flags);

// A model loaded and a session on it. Members are destroyed in reverse order.
struct Workbench {
  MachineProfile machine;
  Isa isa = Isa::plain;
  int prefill_threads = 1, decode_threads = 1;
  std::unique_ptr<ThreadPool> pool;
  std::unique_ptr<const Model> model;
  Device decode_device, prefill_device;
  std::unique_ptr<Book> book;
  std::unique_ptr<Session> session;
  std::string context_why;
  Seconds load_time;
  bool measured_again = false;  // by hold_the_law
};

Result<std::unique_ptr<Workbench>> set_up(const RunFlags& flags);
// Tells on stderr what was chosen and why.
void announce(const Workbench& bench, const RunFlags& flags);

// Set by Ctrl-C; the generation loop ends at the next token.
extern std::atomic<bool> g_cancelled;
void install_interrupt_handler();
// At a prompt, Ctrl-C ends the process as usual.
void remove_interrupt_handler();
// A mapped file that shrinks raises SIGBUS: says so and exits.
void install_bus_error_handler();

}  // namespace ridge
