// SPDX-License-Identifier: Apache-2.0
#include "engine/executor.h"

#include <algorithm>

#include "base/check.h"
#include "base/clock.h"

namespace ridge {

namespace {

// The largest attention needs of any op of the program.
struct AttentionNeeds {
  int64_t scratch_floats = 0;
  int64_t partial_floats = 0;
};

AttentionNeeds attention_needs(const Program& program, const StepLimits& limits,
                               const AttentionKernels& kernels) {
  AttentionNeeds needs;
  const int64_t splits = limits.max_context / kAttentionSplitTokens + 1;
  for (const Op& op : program.ops) {
    const auto* attention = std::get_if<Attention>(&op.body);
    if (attention == nullptr) continue;
    needs.scratch_floats = std::max(
        needs.scratch_floats,
        kernels.scratch_floats(attention->heads / attention->kv_heads, attention->head_dim));
    needs.partial_floats =
        std::max(needs.partial_floats, limits.max_sequences * splits * attention->heads *
                                           partial_floats(attention->head_dim));
  }
  return needs;
}

std::unique_ptr<BoundOp> bind_fused(const Fused& fused, Binding& binding) {
  const bool has_product = std::any_of(fused.parts.begin(), fused.parts.end(), [](const Op& p) {
    return std::holds_alternative<MatMul>(p.body);
  });
  return has_product ? bind_products(fused.parts, binding) : bind_heads(fused.parts, binding);
}

StepMemory make_memory(const Program& program, const Executor::Options& options) {
  const AttentionNeeds needs =
      attention_needs(program, options.limits, attention_kernels(options.isa));
  return {program, options.limits, needs.scratch_floats, needs.partial_floats};
}

}  // namespace

std::unique_ptr<BoundOp> bind(const Op& op, Binding& binding) {
  struct {
    const Op& op;
    Binding& binding;
    std::unique_ptr<BoundOp> operator()(const Embed&) { return bind_embed(op, binding); }
    std::unique_ptr<BoundOp> operator()(const RmsNorm&) { return bind_norm(op, binding); }
    std::unique_ptr<BoundOp> operator()(const MatMul&) { return bind_products({op}, binding); }
    std::unique_ptr<BoundOp> operator()(const Rope&) { return bind_heads({op}, binding); }
    std::unique_ptr<BoundOp> operator()(const Attention&) { return bind_attention(op); }
    std::unique_ptr<BoundOp> operator()(const GatedAct&) { return bind_gate(op); }
    std::unique_ptr<BoundOp> operator()(const Fused& o) { return bind_fused(o, binding); }
    std::unique_ptr<BoundOp> operator()(const AllReduce&) {
      CHECK(!"a single process runs no sharded program");
      return nullptr;
    }
  } binder{op, binding};
  return std::visit(binder, op.body);
}

Executor::Executor(const Program& program, const WeightStore& weights, KvStore& kv,
                   ThreadPool& pool, const Options& options)
    : memory_(make_memory(program, options)), kv_(kv), pool_(pool), options_(options) {
  Binding binding{weights, ropes_, options.limits.max_rows};
  for (const Op& op : program.ops) ops_.push_back(bind(op, binding));
  for (auto& spans : spans_) spans.resize(static_cast<size_t>(options.limits.threads));
}

int64_t Executor::memory_bytes(const Program& program, const Options& options) {
  const AttentionNeeds needs =
      attention_needs(program, options.limits, attention_kernels(options.isa));
  return StepMemory::bytes(program, options.limits, needs.scratch_floats, needs.partial_floats);
}

Seconds Executor::busy_seconds(size_t parity, int n_workers) const {
  const auto& spans = spans_[parity];
  Seconds begin = spans[0].begin, end = spans[0].end;
  for (size_t i = 1; i < static_cast<size_t>(n_workers); ++i) {
    begin = std::min(begin, spans[i].begin);
    end = std::max(end, spans[i].end);
  }
  return end - begin;
}

float* Executor::step(const Batch& batch, int threads, Book* book) {
  CHECK(batch.rows() > 0 && batch.rows() <= options_.limits.max_rows);
  CHECK(batch.logit_rows() <= options_.limits.max_logit_rows);
  for (const int32_t token : batch.tokens()) CHECK(token >= 0 && token < vocab_size());
  for (const BatchSequence& s : batch.sequences())
    CHECK(s.cached + s.new_rows <= options_.limits.max_context);
  const StepContext context{.batch = &batch,
                            .memory = &memory_,
                            .kv = &kv_,
                            .ropes = &ropes_,
                            .cursor = &cursor_,
                            .matmul = &matmul_kernels(options_.isa),
                            .vector = &vector_kernels(options_.isa),
                            .attention = &attention_kernels(options_.isa),
                            .exact = options_.exact};
  cursor_.store(0, std::memory_order_relaxed);
  pool_.run(std::min(threads, options_.limits.threads),
            [&](const ThreadPool::Team& team) { run_ops(context, team, book); });
  return memory_.buffer(Buffer::logits);
}

void Executor::run_ops(const StepContext& context, const ThreadPool::Team& team, Book* book) {
  const auto rows = team.share_of(context.rows());
  for (RopeTable& table : ropes_)
    for (int64_t r = rows.begin; r < rows.end; ++r)
      table.fill(r, context.batch->positions()[static_cast<size_t>(r)]);
  team.barrier();
  for (size_t i = 0; i < ops_.size(); ++i) {
    Span& span = spans_[i % 2][static_cast<size_t>(team.index)];
    span.begin = now();
    ops_[i]->run(context, team);
    span.end = now();
    team.barrier();
    if (team.index != 0) continue;
    // Nobody claims a unit before a barrier inside the next op.
    cursor_.store(0, std::memory_order_relaxed);
    if (book != nullptr) book->post(i, busy_seconds(i % 2, team.count));
  }
}

}  // namespace ridge
