// The golden files of tests/data (tools/README.md tells their fields), and how far from them fp32
// arithmetic may be.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/cpu_info.h"

namespace ridge {

inline nlohmann::json read_golden(const std::string& path_under_data) {
  std::ifstream in(std::string(RIDGE_SOURCE_DIR) + "/tests/data/" + path_under_data);
  CHECK(in.is_open());
  return nlohmann::json::parse(in);
}

inline const std::vector<std::string>& tiny_models() {
  static const std::vector<std::string> names = {"llama",   "llama-linear", "llama-llama3",
                                                 "llama-k", "qwen2",        "qwen3",
                                                 "gemma3",  "gemma3-scaled"};
  return names;
}

// How far the logits of two fp32 evaluations of one model may be apart that add in different
// orders. The golden file measured how far the oracle's are from the same model with products in
// fp64: its own rounding, the largest over many positions. The error of a sum grows as the root of
// the number of roundings on the longest way to it (Higham, "Accuracy and Stability of Numerical
// Algorithms", 2002, section 4.2, roundings of random sign). The oracle's library adds a row up in
// 64 chains or fewer (4 vectors of 16 lanes), our kernels in one chain at worst (outputs, not
// terms, lie side by side), and the plain family rounds each product as well (no FMA in x86-64-v2).
// The oracle's own comes on top.
inline double rounding_tolerance(const nlohmann::json& golden, Isa isa) {
  const double oracle_rounding = golden["oracle"]["max_logit_difference_to_fp64_products"];
  const double roundings_per_term = isa == Isa::plain ? 2 : 1;
  return (1 + std::sqrt(64 * roundings_per_term)) * oracle_rounding;
}

inline double largest_magnitude(std::span<const float> x) {
  double largest = 0;
  for (const float v : x) largest = std::max(largest, std::fabs(static_cast<double>(v)));
  return largest;
}

inline double largest_difference(std::span<const float> a, std::span<const float> b) {
  CHECK(a.size() == b.size());
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i)
    largest = std::max(largest, std::fabs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
  return largest;
}

inline double log_sum_exp(std::span<const float> logits) {
  const float top = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float x : logits) sum += static_cast<double>(std::exp(x - top));
  return static_cast<double>(top) + std::log(sum);
}

// KL(p || q) in nats of two rows of logits, given their log_sum_exp().
inline double kl_divergence(std::span<const float> p, double p_lse, std::span<const float> q,
                            double q_lse) {
  double sum = 0;
  for (size_t i = 0; i < p.size(); ++i) {
    const double log_p = static_cast<double>(p[i]) - p_lse;
    sum += static_cast<double>(std::exp(static_cast<float>(log_p))) *
           (log_p - (static_cast<double>(q[i]) - q_lse));
  }
  return sum;
}

// Mean over rows of KL(p || q); p, q: (rows, vocab).
inline double mean_kl(std::span<const float> p, std::span<const float> q, size_t vocab) {
  double sum = 0;
  for (size_t at = 0; at < p.size(); at += vocab) {
    const auto a = p.subspan(at, vocab), b = q.subspan(at, vocab);
    sum += kl_divergence(a, log_sum_exp(a), b, log_sum_exp(b));
  }
  return sum * static_cast<double>(vocab) / static_cast<double>(p.size());
}

}  // namespace ridge
