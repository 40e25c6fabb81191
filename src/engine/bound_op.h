// An op of the Program tied to a kernel and to the pointers that the Op names. All workers of the
// team call run() together; it may meet at barriers inside, and the executor adds one after it.
// Cursor: the executor sets it to 0 after that barrier and adds none behind; so an op that claims
// units must meet at a barrier of its own inside run() before the first claim.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "base/thread_pool.h"
#include "engine/kv_store.h"
#include "engine/rope_table.h"
#include "engine/step_memory.h"
#include "engine/weight_store.h"
#include "kernels/attention.h"
#include "kernels/matmul.h"
#include "kernels/vector_ops.h"
#include "schedule/batch.h"

namespace ridge {

using Team = ThreadPool::Team;

// What every op of one step sees.
struct StepContext {
  const Batch* batch = nullptr;
  StepMemory* memory = nullptr;
  KvStore* kv = nullptr;
  std::vector<RopeTable>* ropes = nullptr;
  std::atomic<int64_t>* cursor = nullptr;  // next unit of a dynamically shared op; 0 between ops
  const MatmulKernels* matmul = nullptr;
  const VectorKernels* vector = nullptr;
  const AttentionKernels* attention = nullptr;
  bool exact = false;  // fp32 activations

  int64_t rows() const { return batch->rows(); }
  float* row(Buffer b, int64_t r) const { return memory->buffer(b) + r * memory->width(b); }
};

class BoundOp {
 public:
  virtual ~BoundOp() = default;
  virtual void run(const StepContext& c, const Team& team) const = 0;
};

// What binding needs beside the op.
struct Binding {
  const WeightStore& weights;
  std::vector<RopeTable>& ropes;  // grows by the tables that ops need
  int64_t max_rows;
};

std::unique_ptr<BoundOp> bind(const Op& op, Binding& binding);

// The kinds, one file each.
std::unique_ptr<BoundOp> bind_embed(const Op& op, const Binding& binding);
std::unique_ptr<BoundOp> bind_norm(const Op& op, const Binding& binding);
std::unique_ptr<BoundOp> bind_gate(const Op& op);
std::unique_ptr<BoundOp> bind_heads(const std::vector<Op>& parts, Binding& binding);
std::unique_ptr<BoundOp> bind_products(const std::vector<Op>& parts, const Binding& binding);
std::unique_ptr<BoundOp> bind_attention(const Op& op);

}  // namespace ridge
