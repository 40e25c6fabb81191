// Chooses the next token from logits: penalties, temperature, top-k, top-p, min-p, seeded. Greedy
// at temperature 0. Allocates nothing after construction.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "base/rng.h"
#include "text/tokenizer.h"

namespace ridge {

struct SamplingParams {
  double temperature = 0.8;  // 0: greedy
  int64_t top_k = 40;        // 0: off
  double top_p = 0.95;       // 1: off
  double min_p = 0.05;       // 0: off
  // Divides positive and multiplies negative logits of tokens seen among the last
  // `penalty_window` ones (CTRL, arXiv 1909.05858, section 4.1). 1: off
  double repetition_penalty = 1;
  double frequency_penalty = 0;  // subtracted once per occurrence (OpenAI API)
  double presence_penalty = 0;   // subtracted if it occurred (OpenAI API)
  int64_t penalty_window = 256;  // last tokens that the penalties look at, prompt included
  uint64_t seed = 0;
};

class Sampler {
 public:
  Sampler(const SamplingParams& params, int64_t vocab_size);

  // logits: (vocab). Changed in place by the penalties. `history`: all tokens so far.
  TokenId sample(float* logits, const std::vector<TokenId>& history);

 private:
  void penalise(float* logits, const std::vector<TokenId>& history);
  // Keeps the candidates that top-k, top-p and min-p leave, best first, with probabilities.
  void shortlist(const float* logits);

  struct Candidate {
    TokenId id;
    float logit;
    double weight;  // exp((logit - max) / temperature)
  };
  SamplingParams params_;
  int64_t vocab_size_;
  Rng rng_;
  std::vector<Candidate> candidates_;
  std::vector<int32_t> counts_;  // (vocab) occurrences in the window, zero between calls
};

// argmax; the lowest id wins a tie.
TokenId greedy(const float* logits, int64_t vocab_size);

}  // namespace ridge
