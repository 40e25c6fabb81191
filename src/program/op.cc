// SPDX-License-Identifier: Apache-2.0
#include "program/op.h"

#include <set>

namespace ridge {

const char* name_of(Buffer buffer) {
  static constexpr const char* kNames[kBufferCount] = {
      "residual", "normed", "q", "k", "v", "attended", "gate", "up", "branch", "logits"};
  return kNames[static_cast<size_t>(buffer)];
}

std::vector<Weight> weights_of(const Program& program) {
  std::vector<Weight> weights;
  std::set<std::string> seen;
  for (const Op& op : program.ops)
    for_each_weight(op, [&](const Weight& w) {
      if (seen.insert(w.name).second) weights.push_back(w);
    });
  return weights;
}

int64_t parameters_of(const Program& program) {
  int64_t total = 0;
  for (const Weight& w : weights_of(program)) total += w.parameters();
  return total;
}

}  // namespace ridge
