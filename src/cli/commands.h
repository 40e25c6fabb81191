// One entry per subcommand: adds its flags to `app`, and returns what main calls after parsing.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

namespace CLI {
class App;
}

namespace ridge {

using Command = std::function<int()>;  // returns the exit code

Command add_run_command(CLI::App& app);
Command add_chat_command(CLI::App& app);
Command add_inspect_command(CLI::App& app);
Command add_tokenizer_command(CLI::App& app);
Command add_machine_command(CLI::App& app);

}  // namespace ridge
