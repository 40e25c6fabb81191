// ridge machine
// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <memory>

#include "cli/commands.h"
#include "cli/machine_command.h"

namespace ridge {

Command add_machine_command(CLI::App& app) {
  struct Flags {
    bool refresh = false, json = false;
  };
  auto* sub =
      app.add_subcommand("machine", "Measure this machine: bandwidth, multiply peaks, caches.");
  sub->footer("Example: ridge machine --refresh");
  auto flags = std::make_shared<Flags>();
  sub->add_flag("--refresh", flags->refresh, "measure again instead of reading the cached result");
  sub->add_flag("--json", flags->json, "print one JSON object");
  return [flags] { return run_machine_command(flags->refresh, flags->json); };
}

}  // namespace ridge
