// SPDX-License-Identifier: Apache-2.0
#include "engine/session_plan.h"

#include <fmt/format.h>

#include <algorithm>

namespace ridge {

namespace {

// Of the free memory, by default: the rest is for others, and for what grows later.
constexpr int64_t kOneOf = 2;
// A wide model takes smaller prefill steps, down to this, rather than this share of the memory.
constexpr int64_t kSmallestChunk = 16;
constexpr int64_t kStepOneOf = 8;

}  // namespace

int64_t session_bytes(const Model& model, const SessionOptions& options) {
  return kv_pages_for(options.context) * kv_page_bytes(model.spec()) +
         Executor::memory_bytes(model.fused(), executor_options(model, options));
}

Result<SessionPlan> plan_session(const Model& model, SessionOptions options, int64_t wanted_context,
                                 int64_t free_bytes) {
  options.context = kKvPageTokens;
  while (options.prefill_chunk > kSmallestChunk &&
         session_bytes(model, options) > free_bytes / kStepOneOf)
    options.prefill_chunk /= 2;
  const int64_t limit = model.spec().context_length;
  const bool is_wanted = wanted_context > 0;
  options.context = is_wanted ? wanted_context : limit;
  const int64_t needed = session_bytes(model, options);
  if (is_wanted && needed > free_bytes)
    return Error{
        ErrorCode::invalid_input,
        fmt::format("--ctx {} needs {:.2f} GB for the KV cache and the step's buffers, and "
                    "{:.2f} GB are free",
                    wanted_context, static_cast<double>(needed) * 1e-9,
                    static_cast<double>(free_bytes) * 1e-9)};
  if (is_wanted) return SessionPlan{options, "--ctx"};
  const int64_t budget = free_bytes / kOneOf;
  if (needed <= budget) return SessionPlan{options, "the model's limit"};
  // The need grows with the context in a straight line, but for rounding: look between.
  int64_t low = 0, high = limit / kKvPageTokens;  // pages; low fits (or is 0), high does not
  while (high - low > 1) {
    const int64_t middle = low + (high - low) / 2;
    options.context = middle * kKvPageTokens;
    (session_bytes(model, options) <= budget ? low : high) = middle;
  }
  if (low == 0)
    return Error{ErrorCode::io,
                 fmt::format("{:.2f} GB of free memory are too little for this model's buffers",
                             static_cast<double>(free_bytes) * 1e-9)};
  options.context = low * kKvPageTokens;
  return SessionPlan{options, "half of the free memory"};
}

}  // namespace ridge
