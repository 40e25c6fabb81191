// The book: what a run did, joined with how long it took. Work and floors come from work_of and
// floor_seconds and nothing else; times are added as posted. Nothing is clamped: a figure that is
// too good stays visible.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cost/floor.h"

namespace ridge {

// Prefill: steps that read a prompt. Decode: steps in which each sequence adds one token of its
// own.
enum class Phase { prefill, decode };
inline constexpr int kPhaseCount = 2;
const char* name_of(Phase phase);

struct PhaseTotals {
  int64_t steps = 0;
  int64_t rows = 0;           // tokens that went through the model
  int64_t untimed_steps = 0;  // of `steps`: no op was posted
  Seconds wall;               // of whole steps, what happens outside kernels included
  Seconds kernels;            // sum of what was posted
  Work work;
  Floor floor;  // sum of the steps' floors; the roof that binds most of that time
  // The same steps with no context at all: no cache bytes, no FLOPs of attention.
  Seconds floor_without_kv;
  std::array<Seconds, kRoofCount> floor_by_roof{};
  // What recurs in a step, at its largest: it decides which level of memory the bytes come from.
  Bytes max_recurring;
  BytesPerSecond home_rate;  // of that level
  std::string home_name;
  FlopsPerSecond matmul_rate;

  // Share of home_rate that the streamed bytes reached (memory bandwidth utilisation), and of
  // matmul_rate that the FLOPs reached, both over wall time. NaN before the first step.
  double mbu() const { return work.streamed_bytes() / wall / home_rate; }
  double mfu() const { return work.flops() / wall / matmul_rate; }

  // wall = floor_without_kv + these three. The second and third may be negative if a ceiling was
  // measured too low; both need posted kernels.
  // kv_reads: what the floor grows by with the context, whichever roof attention is up against.
  Seconds kv_reads() const { return floor.seconds - floor_without_kv; }
  Seconds kernels_above_floor() const { return kernels - floor.seconds; }
  Seconds outside_kernels() const { return wall - kernels; }
};

// Ops of one stage name, over all steps of a phase.
struct StageRow {
  std::string stage;
  int64_t ops_per_step = 0;
  Seconds seconds;
  Work work;
  Floor floor;
};

// A measured time below its floor: a ceiling of the device was measured too low.
struct BeatenFloor {
  Phase phase = Phase::decode;
  std::string stage;  // empty: the phase as a whole
  Seconds measured;
  Seconds floor;
};

class Book {
 public:
  // Phases may run on different thread counts, so each has a device of its own.
  Book(const Program& program, const Device& prefill_device, const Device& decode_device);
  Book(const Program& program, const Device& device) : Book(program, device, device) {}

  // Post each op that ran once between begin_step and end_step, or none at all (an untimed step).
  void begin_step(const StepShape& shape);
  void post(size_t op_index, Seconds seconds);
  // `wall`: from the step's begin to where the next could begin, sampling included.
  void end_step(Seconds wall, Phase phase);

  const PhaseTotals& phase(Phase phase) const { return side(phase).totals; }
  // In order of first use in the Program; stages that had nothing to do included.
  std::vector<StageRow> stages(Phase phase) const;
  // No tolerance: it is for the caller to measure the ceiling again. Stages and kernels are judged
  // only in a phase without untimed steps.
  std::vector<BeatenFloor> beaten_floors() const;
  bool beats_floor() const { return !beaten_floors().empty(); }
  const Device& device(Phase phase) const { return *devices_[static_cast<size_t>(phase)]; }

  // Prices all steps so far anew, on ceilings that were measured again.
  void reprice(const Device& prefill_device, const Device& decode_device);
  void clear();

 private:
  // Ops with equal work_key: counted once a step.
  struct OpClass {
    Op op;
    size_t stage;
    Work work;  // of the step that is open
    Floor floor, floor_without_kv;
  };
  struct StageTotals {
    Seconds seconds;
    Work work;
    std::array<Seconds, kRoofCount> floor_by_roof{};
    Seconds floor;
  };
  struct Side {
    PhaseTotals totals;
    std::vector<StageTotals> stages;
  };

  const Side& side(Phase phase) const { return sides_[static_cast<size_t>(phase)]; }
  // What reprice needs of a step.
  struct LoggedStep {
    Phase phase;
    size_t n_sequences;
  };
  size_t stage_index(const std::string& name);
  // Adds the work and the floor of one step, not its times.
  void price(const StepShape& shape, Phase phase);
  void add_op(Side& side, const OpClass& op_class);

  std::array<std::shared_ptr<const Device>, kPhaseCount> devices_;
  std::vector<OpClass> classes_;
  std::vector<size_t> class_of_op_;
  std::vector<std::string> stage_names_;
  std::vector<int64_t> ops_of_stage_;
  std::array<Side, kPhaseCount> sides_;
  // The step that is open.
  bool is_open_ = false;
  bool is_timed_ = false;
  StepShape shape_;
  std::vector<Seconds> posted_;  // per stage
  std::vector<LoggedStep> log_;
  std::vector<SequenceShape> logged_sequences_;
};

}  // namespace ridge
