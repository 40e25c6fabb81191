// Text that a user gives: from a file or standard input, whole, up to a limit.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "base/result.h"

namespace ridge {

// `path` "" or "-": standard input. Errors: cannot be read; longer than 64 MiB, which is more than
// any context holds.
Result<std::string> read_text(const std::string& path);

}  // namespace ridge
