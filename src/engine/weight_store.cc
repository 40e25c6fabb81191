// SPDX-License-Identifier: Apache-2.0
#include "engine/weight_store.h"

#include <atomic>
#include <mutex>
#include <optional>
#include <set>

#include "model/weight_table.h"
#include "tensor/codec.h"

namespace ridge {

namespace {

constexpr size_t kAlignment = 64;

size_t align_up(size_t n) { return (n + kAlignment - 1) / kAlignment * kAlignment; }

// Names of the weights that kernels multiply with or look rows up in; all others are vectors.
std::set<std::string> matrices_of(const Program& program) {
  std::set<std::string> names;
  struct {
    std::set<std::string>& names;
    void operator()(const Embed& o) { names.insert(o.table.name); }
    void operator()(const MatMul& o) { names.insert(o.weight.name); }
    void operator()(const Fused& o) {
      for (const Op& part : o.parts) std::visit(*this, part.body);
    }
    void operator()(const RmsNorm&) {}
    void operator()(const Rope&) {}
    void operator()(const Attention&) {}
    void operator()(const GatedAct&) {}
    void operator()(const AllReduce&) {}
  } visitor{names};
  for (const Op& op : program.ops) std::visit(visitor, op.body);
  return names;
}

}  // namespace

Result<WeightStore> WeightStore::load(const GgufFile& file, const Program& program,
                                      ThreadPool& pool, const LoadProgress& progress) {
  const std::vector<Weight> weights = weights_of(program);
  std::vector<ExpectedWeight> expected;
  for (const Weight& w : weights) expected.push_back({w.name, w.rows, w.cols});
  RIDGE_TRY(const WeightTable table, WeightTable::create(file, expected));
  const std::set<std::string> matrices = matrices_of(program);

  WeightStore store;
  size_t offset = 0;
  for (const Weight& w : weights) {
    Entry entry{
        .tensor = &table.at(w.name), .is_vector = !matrices.contains(w.name), .offset = offset};
    entry.view = {nullptr, w.dtype, w.rows, w.cols};
    offset +=
        align_up(entry.is_vector ? static_cast<size_t>(w.cols) * sizeof(float)
                                 : static_cast<size_t>(packed_bytes(w.dtype, w.rows, w.cols)));
    store.entries_.emplace(w.name, entry);
  }
  store.arena_ = AlignedBuffer(offset);
  for (auto& [name, entry] : store.entries_) entry.view.data = store.arena_.data() + entry.offset;
  RIDGE_RETURN_IF_ERROR(store.fill(file, pool, progress));
  return store;
}

// All threads repack one tensor together: each first touches the tiles that it will read later, and
// only one tensor's mapped pages are in memory beside the repacked ones.
Status WeightStore::fill(const GgufFile& file, ThreadPool& pool, const LoadProgress& progress) {
  std::atomic<bool> failed{false};
  std::mutex error_mutex;
  std::optional<Error> error;
  int64_t done = 0, total = 0;
  for (const auto& [name, entry] : entries_) total += entry.tensor->view.bytes();
  pool.run(pool.size(), [&](const ThreadPool::Team& team) {
    for (auto& [name, entry] : entries_) {
      const TensorView& w = entry.tensor->view;
      std::byte* out = arena_.data() + entry.offset;
      const auto tiles = team.share_of(entry.is_vector ? 1 : entry.view.tiles());
      const int64_t row_begin = std::min(w.rows, tiles.begin * kTileRows);
      const int64_t row_end = std::min(w.rows, tiles.end * kTileRows);
      const Status finite = check_finite(*entry.tensor, row_begin, row_end - row_begin);
      if (!finite) {
        const std::lock_guard lock(error_mutex);
        error = finite.error();
        failed = true;
      } else if (!entry.is_vector) {
        pack_tiles(w, tiles.begin, tiles.end, out);
      } else if (team.index == 0) {
        decode(w.dtype, w.data, w.cols, reinterpret_cast<float*>(out));
      }
      team.barrier();
      if (failed) return;
      if (team.index == 0) {
        file.release(*entry.tensor);
        done += w.bytes();
        if (progress) progress(done, total);
      }
    }
  });
  if (error) return *error;
  return {};
}

PackedView WeightStore::matrix(const std::string& name) const {
  const auto found = entries_.find(name);
  CHECK(found != entries_.end() && !found->second.is_vector);
  return found->second.view;
}

const float* WeightStore::vector(const std::string& name) const {
  const auto found = entries_.find(name);
  CHECK(found != entries_.end() && found->second.is_vector);
  return reinterpret_cast<const float*>(found->second.view.data);
}

}  // namespace ridge
