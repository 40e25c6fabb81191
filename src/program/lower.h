// ModelSpec to Program: the only place that knows an architecture (arch/: one short file each).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/result.h"
#include "program/op.h"

namespace ridge {

struct Sharding {
  int64_t tensor_parallel = 1;
};

// Errors: widths that do not divide over the ranks. A spec whose widths do not chain is our bug:
// spec_from_gguf lets none through, and lower CHECKs each op against the one before.
Result<Program> lower(const ModelSpec& spec, Sharding sharding = {});

// Joins ops that the engine runs as one (q, k and v; gate, up and activation; each with the norm
// before it). Removes no work but the traffic of buffers that need not exist.
Program fuse(const Program& program);

}  // namespace ridge
