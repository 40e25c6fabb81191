// CHECK for our own bugs: always on, prints the expression, the values' place and aborts. DCHECK
// is for hot loops and vanishes under NDEBUG. Bad input never ends here: it is a Result.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace ridge {

[[noreturn]] void check_failed(const char* expression, const char* file, int line);

}  // namespace ridge

#define CHECK(condition)                                     \
  do {                                                       \
    if (!(condition)) [[unlikely]]                           \
      ::ridge::check_failed(#condition, __FILE__, __LINE__); \
  } while (0)

#ifdef NDEBUG
#define DCHECK(condition) \
  do {                    \
  } while (0)
#else
#define DCHECK(condition) CHECK(condition)
#endif
