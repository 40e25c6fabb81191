// The weights in memory: matrices repacked for the kernels, vectors as floats. Filled once, by the
// threads that will read them; the file's pages are let go as they are consumed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/result.h"
#include "base/thread_pool.h"
#include "kernels/matmul.h"
#include "model/gguf.h"
#include "program/op.h"

namespace ridge {

using LoadProgress = std::function<void(int64_t bytes_done, int64_t bytes_total)>;

class WeightStore {
 public:
  // Loads the weights of `program` from `file`. Errors: tensors missing, extra or of another shape;
  // NaN or infinity in a weight.
  static Result<WeightStore> load(const GgufFile& file, const Program& program, ThreadPool& pool,
                                  const LoadProgress& progress);

  PackedView matrix(const std::string& name) const;
  const float* vector(const std::string& name) const;

 private:
  struct Entry {
    const GgufTensor* tensor = nullptr;
    bool is_vector = false;
    size_t offset = 0;
    PackedView view;
  };
  Status fill_tiles(const GgufFile& file, const Entry& entry, int64_t begin, int64_t end);
  Status fill_vector(const Entry& entry);
  Status fill(const GgufFile& file, ThreadPool& pool, const LoadProgress& progress);

  std::map<std::string, Entry> entries_;
  AlignedBuffer arena_;
};

}  // namespace ridge
