// Work: what an op must do at the least. Each operand is read once and each result written once;
// what a kernel moves beyond this is its own loss and shows up as a gap. FLOPs are the
// multiply-adds of matrix products and attention, counted as two; norms, softmax and activations
// are left out on purpose.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/units.h"

namespace ridge {

struct Work {
  Flops matmul_flops;
  Flops attention_flops;
  Bytes weight_bytes;      // as the file stores them
  Bytes kv_read_bytes;     // unique cached tokens read, this step's own included
  Bytes kv_write_bytes;    // this step's tokens
  Bytes activation_bytes;  // reads and writes of the step's buffers
  Bytes wire_bytes;        // payload of collectives, per rank

  Flops flops() const { return matmul_flops + attention_flops; }
  // Bytes that recur every step and come from outside the core: what MBU is about.
  Bytes streamed_bytes() const { return weight_bytes + kv_read_bytes + kv_write_bytes; }
  Bytes memory_bytes() const { return streamed_bytes() + activation_bytes; }

  Work& operator+=(const Work& o) {
    matmul_flops += o.matmul_flops;
    attention_flops += o.attention_flops;
    weight_bytes += o.weight_bytes;
    kv_read_bytes += o.kv_read_bytes;
    kv_write_bytes += o.kv_write_bytes;
    activation_bytes += o.activation_bytes;
    wire_bytes += o.wire_bytes;
    return *this;
  }
  bool operator==(const Work&) const = default;
};

}  // namespace ridge
