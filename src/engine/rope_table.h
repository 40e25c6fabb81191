// Cosines and sines of a step's rows. Frequencies are fp64 from load on; the angle is made from the
// integer position in fp64 and rounded once, so position 1,000,000 is as exact as position 1.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "model/spec.h"

namespace ridge {

class RopeTable {
 public:
  // `freqs`: per-pair divisors of the angle (dims / 2), or null.
  RopeTable(const RopeSpec& spec, const float* freqs, int64_t max_rows);

  // Fills row `row` for `position`.
  void fill(int64_t row, int64_t position);
  const float* cos(int64_t row) const { return cos_.data() + row * pairs(); }
  const float* sin(int64_t row) const { return sin_.data() + row * pairs(); }
  int64_t pairs() const { return static_cast<int64_t>(frequency_.size()); }
  const RopeSpec& spec() const { return spec_; }
  bool has_freqs() const { return has_freqs_; }

 private:
  RopeSpec spec_;
  bool has_freqs_;
  std::vector<double> frequency_;  // radians per position
  std::vector<float> cos_, sin_;   // (max_rows, pairs)
};

}  // namespace ridge
