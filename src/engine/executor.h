// Runs the Program: each op bound once to a kernel and to the pointers that the Op names, so
// nothing can run that the Program does not list. After each op the time goes to the book.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <vector>

#include "cost/book.h"
#include "engine/bound_op.h"

namespace ridge {

class Executor {
 public:
  struct Options {
    StepLimits limits;
    Isa isa = Isa::plain;
    bool exact = false;  // fp32 activations instead of int8
  };
  // Keeps references: weights, kv and pool must outlive it. `program` is the (fused) one to run.
  Executor(const Program& program, const WeightStore& weights, KvStore& kv, ThreadPool& pool,
           const Options& options);

  // Bytes that an executor of `program` works in, beside weights and KV cache.
  static int64_t memory_bytes(const Program& program, const Options& options);

  // One forward pass of `batch` on `threads` workers. Returns logits (batch.logit_rows(), vocab),
  // valid until the next step
  // and the caller's to change (a sampler's penalties do). Posts each op's seconds to `book` (if
  // any) between its begin_step() and end_step(), which are the caller's.
  float* step(const Batch& batch, int threads, Book* book);

  int64_t vocab_size() const { return memory_.width(Buffer::logits); }

 private:
  // When a worker was inside an op. Two sets in turn: a worker may be one op ahead of worker 0, who
  // reads them, never two.
  struct alignas(128) Span {
    Seconds begin, end;
  };
  void run_ops(const StepContext& context, const ThreadPool::Team& team, Book* book);
  // From the first worker's begin to the last one's end: the wait at the barrier is not the op's.
  Seconds busy_seconds(size_t parity, int n_workers) const;

  std::vector<RopeTable> ropes_;
  std::vector<std::unique_ptr<BoundOp>> ops_;
  StepMemory memory_;
  KvStore& kv_;
  ThreadPool& pool_;
  Options options_;
  std::atomic<int64_t> cursor_{0};
  std::array<std::vector<Span>, 2> spans_;
};

}  // namespace ridge
