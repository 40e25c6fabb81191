// What a run cost, from the book and nothing else: the table for people, the object for machines.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "cli/run_options.h"

namespace ridge {

std::string run_table(const Workbench& bench, const RunFlags& flags, const Generation& generation);
std::string run_json(const Workbench& bench, const RunFlags& flags, size_t prompt_tokens,
                     const Generation& generation);

// Nothing measured beats its floor. If something did, a ceiling was measured too low (a busy
// neighbour): measures it again, keeps the better figures, says so, and prices the run anew.
void hold_the_law(Workbench& bench, const RunFlags& flags);

Status save_conversation(const std::string& path, const RunFlags& flags,
                         const std::vector<ChatMessage>& messages);

}  // namespace ridge
