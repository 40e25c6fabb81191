// SPDX-License-Identifier: Apache-2.0
#include "engine/weight_store.h"

#include <algorithm>
#include <mutex>
#include <optional>
#include <set>

#include "model/weight_table.h"
#include "tensor/codec.h"

namespace ridge {

namespace {

constexpr size_t kAlignment = 64;
// Bytes of a tensor that one thread has mapped at a time while it repacks them.
constexpr int64_t kSliceBytes = int64_t{4} << 20;

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
  expected.reserve(weights.size());
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

// Repacks tiles [begin, end) of one tensor, letting go of the file's pages slice by slice, so that
// a large tensor is never in memory twice.
Status WeightStore::fill_tiles(const GgufFile& file, const Entry& entry, int64_t begin,
                               int64_t end) {
  const TensorView& w = entry.tensor->view;
  const int64_t step = std::max<int64_t>(1, kSliceBytes / (kTileRows * w.row_bytes()));
  for (int64_t tile = begin; tile < end; tile += step) {
    const int64_t tile_end = std::min(end, tile + step);
    const int64_t row = tile * kTileRows;
    const int64_t rows = std::min(w.rows, tile_end * kTileRows) - row;
    RIDGE_RETURN_IF_ERROR(check_finite(*entry.tensor, row, rows));
    pack_tiles(w, tile, tile_end, arena_.data() + entry.offset);
    file.release(*entry.tensor, row, rows);
  }
  return {};
}

Status WeightStore::fill_vector(const Entry& entry) {
  const TensorView& w = entry.tensor->view;
  RIDGE_RETURN_IF_ERROR(check_finite(*entry.tensor));
  decode(w.dtype, w.data, w.cols, reinterpret_cast<float*>(arena_.data() + entry.offset));
  return {};
}

// All threads repack each tensor together: each first touches the tiles that it will read later.
Status WeightStore::fill(const GgufFile& file, ThreadPool& pool, const LoadProgress& progress) {
  std::mutex error_mutex;
  std::optional<Error> error;
  int64_t total = 0;
  for (const auto& [name, entry] : entries_) total += entry.tensor->view.bytes();
  pool.run(pool.size(), [&](const ThreadPool::Team& team) {
    int64_t done = 0;
    for (const auto& [name, entry] : entries_) {
      const auto tiles = team.share_of(entry.view.tiles());
      Status status;
      if (!entry.is_vector)
        status = fill_tiles(file, entry, tiles.begin, tiles.end);
      else if (team.index == 0)
        status = fill_vector(entry);
      if (!status) {
        const std::lock_guard lock(error_mutex);
        if (!error) error = status.error();
        return;  // there is no barrier: the others end by themselves
      }
      done += entry.tensor->view.bytes();
      if (team.index == 0 && progress) progress(done, total);
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
