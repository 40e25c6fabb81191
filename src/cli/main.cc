// The one binary. Parses flags, calls one subcommand, returns its exit code: 0 fine, 1 input or run
// failed, 2 usage.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <new>
#include <system_error>
#include <utility>
#include <vector>

#include "base/cpu_info.h"
#include "cli/commands.h"
#include "cli/run_options.h"
#include "cli/terminal.h"

namespace {

std::string version_text() {
  const auto isa = ridge::selected_isa();
  return fmt::format("ridge {}\nisa: {}", RIDGE_VERSION,
                     isa ? ridge::name_of(*isa) : isa.error().message);
}

// What was computed but could not be written (a full disk) is a failure. The only exceptions that
// come here are the standard library's: no memory, no more threads.
int checked(const ridge::Command& command) {
  int code = ridge::kExitFailed;
  try {
    code = command();
  } catch (const std::bad_alloc&) {
    return ridge::fail({ridge::ErrorCode::io, "there is not enough memory for this"});
  } catch (const std::system_error& error) {
    return ridge::fail({ridge::ErrorCode::io, fmt::format("the system refused: {}", error.what())});
  }
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
  return ridge::fail({ridge::ErrorCode::io, "standard output could not be written to its end"});
}

}  // namespace

int main(int argc, char** argv) {
  ridge::install_bus_error_handler();
  CLI::App app{
      "ridge runs language models on this machine and shows how far each step is from its "
      "floor.",
      "ridge"};
  app.require_subcommand(1);
  app.set_version_flag("--version", version_text);
  std::vector<std::pair<CLI::App*, ridge::Command>> commands;
  for (const auto add :
       {ridge::add_run_command, ridge::add_chat_command, ridge::add_inspect_command,
        ridge::add_tokenizer_command, ridge::add_machine_command}) {
    ridge::Command command = add(app);
    commands.emplace_back(app.get_subcommands({}).back(), std::move(command));
  }
  if (argc == 1)
    return ridge::fail(
        {ridge::ErrorCode::usage, "a command is missing; 'ridge --help' lists them"});
  const std::string first = argv[1];
  const bool is_command = std::any_of(commands.begin(), commands.end(),
                                      [&](const auto& c) { return c.first->get_name() == first; });
  if (!first.starts_with('-') && !is_command)
    return ridge::fail({ridge::ErrorCode::usage,
                        fmt::format("'{}' is not a command; 'ridge --help' lists them", first)});
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {  // --help, --version
    return app.exit(success);
  } catch (const CLI::ParseError& error) {
    return ridge::fail({ridge::ErrorCode::usage, error.what()});
  }
  for (const auto& [sub, command] : commands)
    if (sub->parsed()) return checked(command);
  return ridge::kExitUsage;
}
