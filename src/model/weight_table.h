// The weights that a program expects against the tensors that a file has: exactly the same names
// and shapes, or a sentence that says which differ. And the check that their numbers are finite.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/gguf.h"

namespace ridge {

// A vector of n elements is 1 x n.
struct ExpectedWeight {
  std::string name;
  int64_t rows = 0, cols = 0;
};

// Points into the GgufFile, which must outlive it.
class WeightTable {
 public:
  // Errors: a weight is missing, has another shape, or the file has a tensor that nothing expects
  // (rope_freqs.weight may always be there).
  static Result<WeightTable> create(const GgufFile& file,
                                    const std::vector<ExpectedWeight>& expected);

  // CHECKs that `name` was expected.
  const GgufTensor& at(std::string_view name) const;

 private:
  std::map<std::string, const GgufTensor*, std::less<>> tensors_;
};

// Error: an element, or the f16 scale of a block, is NaN or infinite. Quantised blocks of finite
// scales decode to finite numbers. Fast enough to run on the way of repacking; rows may be split
// over threads.
Status check_finite(const GgufTensor& tensor);
Status check_finite(const GgufTensor& tensor, int64_t first_row, int64_t row_count);

}  // namespace ridge
