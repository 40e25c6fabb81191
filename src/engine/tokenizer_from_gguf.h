// The tokenizer that a GGUF file describes (tokenizer.ggml.*). Only reads metadata: what it says is
// judged by Tokenizer::create.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string_view>

#include "base/result.h"
#include "model/gguf.h"
#include "text/tokenizer.h"

namespace ridge {

// `pre_override`: --pre NAME, used instead of tokenizer.ggml.pre if not empty.
// Errors: a missing or mistyped key, a tokenizer model other than gpt2 (BPE) and llama (SPM), and
// those of Tokenizer::create; each names the file. ErrorCode::usage: an override that names no
// pre-tokeniser, or one for SPM.
Result<std::unique_ptr<const Tokenizer>> tokenizer_from_gguf(const GgufFile& file,
                                                             std::string_view pre_override = {});

}  // namespace ridge
