// How long a context and how large a prefill step this machine's free memory allows.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "base/result.h"
#include "engine/session.h"

namespace ridge {

struct SessionPlan {
  SessionOptions options;   // context and prefill_chunk filled in
  std::string context_why;  // "the model's limit", "half of the free memory", "--ctx"
};

// `options`: the rest of them. `wanted_context` 0: the model's limit, or what half of `free_bytes`
// allows. Errors: a wanted context that does not fit; not even one page fits.
Result<SessionPlan> plan_session(const Model& model, SessionOptions options, int64_t wanted_context,
                                 int64_t free_bytes);

// Bytes a session takes beside the model: KV cache and step memory.
int64_t session_bytes(const Model& model, const SessionOptions& options);

}  // namespace ridge
