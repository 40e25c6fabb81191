// SPDX-License-Identifier: Apache-2.0
#include "engine/rope_table.h"

#include <cmath>

namespace ridge {

RopeTable::RopeTable(const RopeSpec& spec, const float* freqs, int64_t max_rows)
    : spec_(spec), has_freqs_(freqs != nullptr), frequency_(static_cast<size_t>(spec.dims / 2)) {
  const double scale = spec.scaling == RopeScaling::linear ? 1 / spec.factor : 1.0;
  for (size_t i = 0; i < frequency_.size(); ++i) {
    // RoFormer (arXiv 2104.09864), section 3.2.2: theta_i = base^(-2 i / dims)
    const double theta =
        std::pow(spec.base, -2.0 * static_cast<double>(i) / static_cast<double>(spec.dims));
    frequency_[i] = theta * scale / (freqs != nullptr ? static_cast<double>(freqs[i]) : 1.0);
  }
  cos_.resize(static_cast<size_t>(max_rows) * frequency_.size());
  sin_.resize(cos_.size());
}

void RopeTable::fill(int64_t row, int64_t position) {
  const size_t at = static_cast<size_t>(row) * frequency_.size();
  for (size_t i = 0; i < frequency_.size(); ++i) {
    const double angle = static_cast<double>(position) * frequency_[i];
    cos_[at + i] = static_cast<float>(std::cos(angle));
    sin_[at + i] = static_cast<float>(std::sin(angle));
  }
}

}  // namespace ridge
