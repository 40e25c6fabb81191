// SPDX-License-Identifier: Apache-2.0
#include "cost/floor.h"

#include <algorithm>

#include "base/check.h"
#include "cost/work_of.h"

namespace ridge {

const char* name_of(Roof roof) {
  static constexpr const char* kNames[] = {"memory", "matmul", "attention", "wire"};
  return kNames[static_cast<size_t>(roof)];
}

Roof most_binding(const std::array<Seconds, kRoofCount>& by_roof) {
  return static_cast<Roof>(std::max_element(by_roof.begin(), by_roof.end()) - by_roof.begin());
}

Floor floor_seconds(const Work& work, const Device& device, Bytes recurring) {
  // A step's own buffers are made and used again at once: only their own size decides where they
  // live.
  const Seconds memory = std::max(read_floor(device, work.streamed_bytes(), recurring),
                                  read_floor(device, work.activation_bytes, work.activation_bytes));
  Floor floor{memory, Roof::memory};
  if (work.matmul_flops > Flops(0) && work.matmul_flops / device.matmul_rate > floor.seconds)
    floor = {work.matmul_flops / device.matmul_rate, Roof::matmul};
  if (work.attention_flops > Flops(0) &&
      work.attention_flops / device.attention_rate > floor.seconds)
    floor = {work.attention_flops / device.attention_rate, Roof::attention};
  if (work.wire_bytes > Bytes(0)) {
    CHECK(device.wire_rate > BytesPerSecond(0));
    // Each rank must at least send its share and receive the sum of the others' (bandwidth-optimal
    // all-reduce: 2 (p - 1) / p of the payload, here its lower bound for p = 2).
    floor = {floor.seconds + work.wire_bytes / device.wire_rate, Roof::wire};
  }
  return floor;
}

Floor floor_seconds(const Program& program, const StepShape& shape, const Device& device) {
  const Bytes recurring = work_of(program, shape).streamed_bytes();
  Floor total;
  std::array<Seconds, kRoofCount> by_roof{};
  for (const Op& op : program.ops) {
    const Floor floor = floor_seconds(work_of(op, shape), device, recurring);
    total.seconds += floor.seconds;
    by_roof[static_cast<size_t>(floor.roof)] += floor.seconds;
  }
  total.roof = most_binding(by_roof);
  return total;
}

}  // namespace ridge
