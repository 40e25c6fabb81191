// SPDX-License-Identifier: Apache-2.0
#include "cost/book.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/check.h"
#include "cost/work_of.h"

namespace ridge {

namespace {

// A step allocates nothing until a run outgrows these: 8192 steps of one sequence are 320 KB.
constexpr size_t kReservedSteps = 8192;
constexpr size_t kReservedSequences = 64;

// FLOPs of attention go too: they grow with the context as the reads do, and on a slow core it is
// they that bind.
Work without_kv(Work work) {
  work.kv_read_bytes = work.kv_write_bytes = Bytes(0);
  work.attention_flops = Flops(0);
  return work;
}

}  // namespace

const char* name_of(Phase phase) { return phase == Phase::prefill ? "prefill" : "decode"; }

Book::Book(const Program& program, const Device& prefill_device, const Device& decode_device)
    : devices_{std::make_shared<const Device>(prefill_device),
               std::make_shared<const Device>(decode_device)} {
  std::map<std::string, size_t> class_of_key;
  for (const Op& op : program.ops) {
    const size_t stage = stage_index(op.stage);
    ++ops_of_stage_[stage];
    const auto [it, is_new] = class_of_key.try_emplace(work_key(op), classes_.size());
    if (is_new) classes_.push_back({.op = op, .stage = stage});
    class_of_op_.push_back(it->second);
  }
  posted_.resize(stage_names_.size());
  log_.reserve(kReservedSteps);
  logged_sequences_.reserve(kReservedSteps);
  shape_.sequences.reserve(kReservedSequences);
  clear();
}

size_t Book::stage_index(const std::string& name) {
  const auto at = std::find(stage_names_.begin(), stage_names_.end(), name);
  if (at != stage_names_.end()) return static_cast<size_t>(at - stage_names_.begin());
  stage_names_.push_back(name);
  ops_of_stage_.push_back(0);
  return stage_names_.size() - 1;
}

void Book::clear() {
  for (const Phase phase : {Phase::prefill, Phase::decode}) {
    Side& side = sides_[static_cast<size_t>(phase)];
    side.totals = {.matmul_rate = device(phase).matmul_rate};
    side.stages.assign(stage_names_.size(), {});
  }
  log_.clear();
  logged_sequences_.clear();
  is_open_ = false;
}

void Book::begin_step(const StepShape& shape) {
  CHECK(!is_open_);
  is_open_ = true;
  is_timed_ = false;
  shape_.sequences.assign(shape.sequences.begin(), shape.sequences.end());
  std::fill(posted_.begin(), posted_.end(), Seconds(0));
}

void Book::post(size_t op_index, Seconds seconds) {
  CHECK(is_open_ && op_index < class_of_op_.size());
  posted_[classes_[class_of_op_[op_index]].stage] += seconds;
  is_timed_ = true;
}

void Book::add_op(Side& side, const OpClass& op_class) {
  const auto roof = static_cast<size_t>(op_class.floor.roof);
  StageTotals& stage = side.stages[op_class.stage];
  stage.work += op_class.work;
  stage.floor += op_class.floor.seconds;
  stage.floor_by_roof[roof] += op_class.floor.seconds;
  side.totals.work += op_class.work;
  side.totals.floor_by_roof[roof] += op_class.floor.seconds;
}

void Book::price(const StepShape& shape, Phase phase) {
  const Device& device = this->device(phase);
  for (OpClass& c : classes_) c.work = work_of(c.op, shape);
  // Bytes are whole numbers, so these sums are exact in any order.
  Work step;
  for (const size_t c : class_of_op_) step += classes_[c].work;
  const Bytes recurring = step.streamed_bytes();
  for (OpClass& c : classes_) {
    c.floor = floor_seconds(c.work, device, recurring);
    c.floor_without_kv = floor_seconds(without_kv(c.work), device, step.weight_bytes);
  }
  Side& side = sides_[static_cast<size_t>(phase)];
  PhaseTotals& totals = side.totals;
  // A sum of its own per step, in the order of floor_seconds: the two must agree to the last bit.
  Seconds floor, floor_without_kv;
  for (const size_t c : class_of_op_) {
    add_op(side, classes_[c]);
    floor += classes_[c].floor.seconds;
    floor_without_kv += classes_[c].floor_without_kv.seconds;
  }
  totals.floor = {totals.floor.seconds + floor, most_binding(totals.floor_by_roof)};
  totals.floor_without_kv += floor_without_kv;
  totals.max_recurring = std::max(totals.max_recurring, recurring);
  const MemoryLevel home = home_level(device, totals.max_recurring);
  totals.home_rate = home.read_rate;
  totals.home_name = home.name;
}

void Book::end_step(Seconds wall, Phase phase) {
  CHECK(is_open_);
  is_open_ = false;
  price(shape_, phase);
  log_.push_back({phase, shape_.sequences.size()});
  logged_sequences_.insert(logged_sequences_.end(), shape_.sequences.begin(),
                           shape_.sequences.end());
  Side& side = sides_[static_cast<size_t>(phase)];
  PhaseTotals& totals = side.totals;
  for (size_t s = 0; s < posted_.size(); ++s) {
    side.stages[s].seconds += posted_[s];
    totals.kernels += posted_[s];
  }
  ++totals.steps;
  totals.untimed_steps += is_timed_ ? 0 : 1;
  totals.rows += shape_.rows();
  totals.wall += wall;
}

void Book::reprice(const Device& prefill_device, const Device& decode_device) {
  CHECK(!is_open_);
  devices_ = {std::make_shared<const Device>(prefill_device),
              std::make_shared<const Device>(decode_device)};
  for (const Phase phase : {Phase::prefill, Phase::decode}) {
    Side& side = sides_[static_cast<size_t>(phase)];
    PhaseTotals priced_anew{.steps = side.totals.steps,
                            .rows = side.totals.rows,
                            .untimed_steps = side.totals.untimed_steps,
                            .wall = side.totals.wall,
                            .kernels = side.totals.kernels,
                            .matmul_rate = device(phase).matmul_rate};
    side.totals = priced_anew;
    for (StageTotals& stage : side.stages) stage = {.seconds = stage.seconds};
  }
  auto next = logged_sequences_.cbegin();
  for (const LoggedStep& step : log_) {
    const auto end = next + static_cast<ptrdiff_t>(step.n_sequences);
    shape_.sequences.assign(next, end);
    price(shape_, step.phase);
    next = end;
  }
}

std::vector<StageRow> Book::stages(Phase phase) const {
  std::vector<StageRow> rows;
  for (size_t s = 0; s < stage_names_.size(); ++s) {
    const StageTotals& stage = side(phase).stages[s];
    rows.push_back({stage_names_[s],
                    ops_of_stage_[s],
                    stage.seconds,
                    stage.work,
                    {stage.floor, most_binding(stage.floor_by_roof)}});
  }
  return rows;
}

std::vector<BeatenFloor> Book::beaten_floors() const {
  std::vector<BeatenFloor> beaten;
  for (const Phase p : {Phase::prefill, Phase::decode}) {
    const PhaseTotals& totals = phase(p);
    const bool has_kernels = totals.untimed_steps == 0;
    const Seconds measured = has_kernels ? std::min(totals.kernels, totals.wall) : totals.wall;
    if (measured < totals.floor.seconds) beaten.push_back({p, "", measured, totals.floor.seconds});
    if (!has_kernels) continue;
    for (const StageRow& row : stages(p))
      if (row.seconds < row.floor.seconds)
        beaten.push_back({p, row.stage, row.seconds, row.floor.seconds});
  }
  return beaten;
}

}  // namespace ridge
