// The one monotonic clock.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>

#include "base/units.h"

namespace ridge {

inline Seconds now() {
  return Seconds(
      std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count());
}

}  // namespace ridge
