// SPDX-License-Identifier: Apache-2.0
#include "engine/sampler.h"

#include <algorithm>
#include <cmath>

namespace ridge {

namespace {

// Without top-k, candidates are sorted in growing runs until top-p is reached.
constexpr size_t kFirstRun = 256;

}  // namespace

TokenId greedy(const float* logits, int64_t vocab_size) {
  // Blocks of a fixed width keep the compiler's vectors busy; the exact place is found afterwards.
  constexpr int64_t kBlock = 64;
  float best = logits[0];
  int64_t best_block = 0;
  for (int64_t begin = 0; begin < vocab_size; begin += kBlock) {
    const int64_t end = std::min(begin + kBlock, vocab_size);
    float top = logits[begin];
    for (int64_t i = begin + 1; i < end; ++i) top = std::max(top, logits[i]);
    if (top > best) {
      best = top;
      best_block = begin;
    }
  }
  int64_t i = best_block;
  while (i + 1 < vocab_size && logits[i] != best) ++i;
  return static_cast<TokenId>(i);
}

Sampler::Sampler(const SamplingParams& params, int64_t vocab_size)
    : params_(params), vocab_size_(vocab_size), rng_(params.seed) {
  candidates_.reserve(static_cast<size_t>(vocab_size));
  counts_.resize(static_cast<size_t>(vocab_size), 0);
}

void Sampler::penalise(float* logits, const std::vector<TokenId>& history) {
  if (params_.repetition_penalty == 1 && params_.frequency_penalty == 0 &&
      params_.presence_penalty == 0)
    return;
  const size_t window = static_cast<size_t>(params_.penalty_window);
  const size_t begin = history.size() > window ? history.size() - window : 0;
  for (size_t i = begin; i < history.size(); ++i) ++counts_[static_cast<size_t>(history[i])];
  for (size_t i = begin; i < history.size(); ++i) {
    int32_t& count = counts_[static_cast<size_t>(history[i])];
    if (count == 0) continue;  // done already
    float& logit = logits[history[i]];
    const auto repetition = static_cast<float>(params_.repetition_penalty);
    logit = logit > 0 ? logit / repetition : logit * repetition;
    logit -= static_cast<float>(params_.frequency_penalty * count + params_.presence_penalty);
    count = 0;
  }
}

void Sampler::shortlist(const float* logits) {
  candidates_.clear();
  const float top = *std::max_element(logits, logits + vocab_size_);
  const auto weight_of = [&](float logit) {
    return std::exp(static_cast<double>(logit - top) / params_.temperature);
  };
  for (int64_t i = 0; i < vocab_size_; ++i)
    candidates_.push_back({static_cast<TokenId>(i), logits[i], 0});
  size_t sorted = 0;
  const auto sort_until = [&](size_t end) {
    std::partial_sort(candidates_.begin() + static_cast<ptrdiff_t>(sorted),
                      candidates_.begin() + static_cast<ptrdiff_t>(end), candidates_.end(),
                      [](const Candidate& a, const Candidate& b) {
                        return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
                      });
    sorted = end;
  };

  size_t limit = candidates_.size();
  if (params_.top_k > 0) {
    limit = std::min(limit, static_cast<size_t>(params_.top_k));
    sort_until(limit);
  }
  double total = 0;  // of the candidates that top-k left
  for (size_t i = 0; i < limit; ++i) total += weight_of(candidates_[i].logit);

  size_t kept = 0;
  for (double kept_weight = 0; kept < limit; ++kept) {
    if (kept == sorted) sort_until(std::min(limit, std::max(kFirstRun, 4 * sorted)));
    Candidate& c = candidates_[kept];
    c.weight = weight_of(c.logit);
    if (kept > 0 && (c.weight < params_.min_p || kept_weight >= params_.top_p * total)) break;
    kept_weight += c.weight;
  }
  candidates_.resize(kept);
}

TokenId Sampler::sample(float* logits, const std::vector<TokenId>& history) {
  penalise(logits, history);
  if (params_.temperature == 0) return greedy(logits, vocab_size_);
  shortlist(logits);
  double total = 0;
  for (const Candidate& c : candidates_) total += c.weight;
  double draw = rng_.uniform() * total;
  for (const Candidate& c : candidates_) {
    draw -= c.weight;
    if (draw < 0) return c.id;
  }
  return candidates_.back().id;
}

}  // namespace ridge
