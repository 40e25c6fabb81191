// SPDX-License-Identifier: Apache-2.0
#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace ridge {

void check_failed(const char* expression, const char* file, int line) {
  std::fprintf(stderr, "%s:%d: CHECK(%s) failed: a bug in ridge, please report it\n", file, line,
               expression);
  std::abort();
}

}  // namespace ridge
