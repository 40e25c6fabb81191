// SPDX-License-Identifier: Apache-2.0
#include "cost/book.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <new>
#include <utility>

#include "base/check.h"
#include "cost/work_of.h"
#include "program/lower.h"

namespace {
thread_local int64_t n_allocations = 0;
}  // namespace

// The whole test program counts what it allocates. Not inlined: g++ would see malloc paired with
// delete and warn.
[[gnu::noinline]] void* operator new(size_t bytes) {
  ++n_allocations;
  if (void* p = std::malloc(bytes)) return p;
  std::abort();
}
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, size_t) noexcept { std::free(p); }

namespace ridge {
namespace {

Device toy_device() {
  return {.name = "toy",
          .levels = {{"L3", Bytes(40e3), BytesPerSecond(80e9)},
                     {"memory", Bytes(0), BytesPerSecond(20e9)}},
          .matmul_rate = FlopsPerSecond(100e9),
          .attention_rate = FlopsPerSecond(30e9),
          .wire_rate = BytesPerSecond(0),
          .matmul_arithmetic = "int8",
          .source = "invented"};
}

Program toy_program() {
  ModelSpec spec{.architecture = Architecture::gemma3};
  spec.n_layers = 6, spec.d_model = 96, spec.n_heads = 6, spec.n_kv_heads = 2, spec.head_dim = 32;
  spec.d_ff = 160, spec.vocab_size = 130, spec.tied_embedding = true;
  spec.default_weight_dtype = DType::q4_1;
  spec.rope.dims = spec.rope_local.dims = 32;
  spec.sliding_window = 5, spec.windowed = {true, true, false, true, true, false};
  const Result<Program> program = lower(spec);
  CHECK(program.has_value());
  return fuse(*program);
}

// Posts `slowdown` times its floor for each op; `outside` on top.
void run_step(Book& book, const Program& program, const StepShape& shape, Phase phase,
              double slowdown, Seconds outside) {
  const Bytes recurring = work_of(program, shape).streamed_bytes();
  Seconds wall = outside;
  book.begin_step(shape);
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const Floor floor = floor_seconds(work_of(program.ops[i], shape), toy_device(), recurring);
    book.post(i, floor.seconds * slowdown);
    wall += floor.seconds * slowdown;
  }
  book.end_step(wall, phase);
}

TEST(Book, classes_give_the_work_and_the_floor_that_the_program_has_op_by_op) {
  const Program program = toy_program();
  for (const StepShape& shape :
       {decode_shape(1, 1), decode_shape(3, 70), StepShape{{{9, 4, 0}, {1, 30, 1}}}}) {
    Book book(program, toy_device());
    run_step(book, program, shape, Phase::decode, 2, Seconds(1e-3));
    const PhaseTotals& totals = book.phase(Phase::decode);
    EXPECT_EQ(totals.work, work_of(program, shape));
    const Floor floor = floor_seconds(program, shape, toy_device());
    EXPECT_EQ(totals.floor.seconds, floor.seconds);
    EXPECT_EQ(totals.floor.roof, floor.roof);
    EXPECT_EQ(totals.rows, shape.rows());
    EXPECT_EQ(totals.steps, 1);
    EXPECT_EQ(book.phase(Phase::prefill).steps, 0);
  }
}

TEST(Book, steps_add_up_and_phases_are_kept_apart) {
  const Program program = toy_program();
  Book book(program, toy_device());
  run_step(book, program, {{{12, 0, 1}}}, Phase::prefill, 1.5, Seconds(1e-4));
  Work work;
  Seconds floor;
  for (int64_t context = 13; context < 20; ++context) {
    run_step(book, program, decode_shape(1, context), Phase::decode, 1.5, Seconds(1e-4));
    work += work_of(program, decode_shape(1, context));
    floor += floor_seconds(program, decode_shape(1, context), toy_device()).seconds;
  }
  EXPECT_EQ(book.phase(Phase::prefill).rows, 12);
  EXPECT_EQ(book.phase(Phase::decode).rows, 7);
  EXPECT_EQ(book.phase(Phase::decode).work, work);
  EXPECT_EQ(book.phase(Phase::decode).floor.seconds, floor);
  EXPECT_EQ(book.phase(Phase::decode).max_recurring,
            work_of(program, decode_shape(1, 19)).streamed_bytes());
  book.clear();
  EXPECT_EQ(book.phase(Phase::decode).steps, 0);
  EXPECT_EQ(book.phase(Phase::decode).wall, Seconds(0));
  EXPECT_EQ(book.stages(Phase::decode)[0].seconds, Seconds(0));
}

TEST(Book, the_buckets_of_a_decode_step_add_up_to_its_wall_time) {
  const Program program = toy_program();
  Book book(program, toy_device());
  for (int64_t context = 100; context < 130; ++context)
    run_step(book, program, decode_shape(2, context), Phase::decode, 1.7, Seconds(3e-6));
  const PhaseTotals& t = book.phase(Phase::decode);
  EXPECT_DOUBLE_EQ(
      (t.floor_without_kv + t.kv_reads() + t.kernels_above_floor() + t.outside_kernels()).value,
      t.wall.value);
  EXPECT_GT(t.kv_reads(), Seconds(0));
  EXPECT_NEAR(t.kernels_above_floor().value, 0.7 * t.floor.seconds.value, 1e-12);
  EXPECT_NEAR(t.outside_kernels().value, 30 * 3e-6, 1e-12);
}

TEST(Book, reads_of_the_cache_grow_with_context_and_the_floor_without_them_does_not) {
  const Program program = toy_program();
  const auto totals_at = [&](int64_t context) {
    Book book(program, toy_device());
    run_step(book, program, decode_shape(1, context), Phase::decode, 1, Seconds(0));
    return std::pair{book.phase(Phase::decode).floor_without_kv,
                     book.phase(Phase::decode).kv_reads()};
  };
  const auto [short_rest, short_kv] = totals_at(10);
  const auto [long_rest, long_kv] = totals_at(40);
  EXPECT_EQ(short_rest, long_rest);
  EXPECT_GT(long_kv, short_kv);
}

TEST(Book, mbu_and_mfu_are_over_wall_time_and_the_home_of_what_recurs) {
  const Program program = toy_program();
  Book book(program, toy_device());
  run_step(book, program, decode_shape(2, 50), Phase::decode, 2, Seconds(1e-5));
  const PhaseTotals& t = book.phase(Phase::decode);
  const Work work = work_of(program, decode_shape(2, 50));
  ASSERT_GT(work.streamed_bytes(), Bytes(40e3));
  EXPECT_EQ(t.home_name, "memory");
  EXPECT_DOUBLE_EQ(t.mbu(), work.streamed_bytes().value / t.wall.value / 20e9);
  EXPECT_DOUBLE_EQ(t.mfu(), work.flops().value / t.wall.value / 100e9);

  Device roomy = toy_device();
  roomy.levels[0].capacity = Bytes(1e9);
  Book cached(program, roomy);
  cached.begin_step(decode_shape(2, 50));
  cached.end_step(Seconds(1), Phase::decode);
  const Book moved = std::move(cached);
  EXPECT_EQ(moved.phase(Phase::decode).home_name, "L3");
  EXPECT_EQ(moved.phase(Phase::decode).home_rate, BytesPerSecond(80e9));
}

TEST(Book, stage_rows_share_out_the_phase_without_rest) {
  const Program program = toy_program();
  Book book(program, toy_device());
  run_step(book, program, decode_shape(3, 20), Phase::decode, 1.3, Seconds(1e-5));
  run_step(book, program, decode_shape(3, 21), Phase::decode, 1.3, Seconds(1e-5));
  const PhaseTotals& t = book.phase(Phase::decode);
  Work work;
  Seconds seconds, floor;
  int64_t ops = 0;
  for (const StageRow& row : book.stages(Phase::decode)) {
    work += row.work, seconds += row.seconds, floor += row.floor.seconds, ops += row.ops_per_step;
    EXPECT_NEAR(row.seconds.value, 1.3 * row.floor.seconds.value, 1e-15) << row.stage;
  }
  EXPECT_EQ(work, t.work);
  EXPECT_EQ(ops, static_cast<int64_t>(program.ops.size()));
  EXPECT_NEAR(seconds.value, t.kernels.value, 1e-15);
  EXPECT_NEAR(floor.value, t.floor.seconds.value, 1e-15);
}

TEST(Book, an_honest_run_beats_no_floor) {
  const Program program = toy_program();
  Book book(program, toy_device());
  EXPECT_FALSE(book.beats_floor()) << "nothing ran yet";
  run_step(book, program, {{{12, 0, 1}}}, Phase::prefill, 1.01, Seconds(1e-5));
  run_step(book, program, decode_shape(1, 13), Phase::decode, 1.01, Seconds(1e-5));
  EXPECT_FALSE(book.beats_floor());
}

TEST(Book, a_planted_too_fast_op_is_caught_by_its_stage_and_a_too_fast_run_by_its_phase) {
  const Program program = toy_program();
  const StepShape shape = decode_shape(1, 13);
  Book book(program, toy_device());
  run_step(book, program, shape, Phase::prefill, 1.1, Seconds(1e-5));
  book.begin_step(shape);
  for (size_t i = 0; i < program.ops.size(); ++i)
    book.post(i, program.ops[i].stage == "lm_head" ? Seconds(1e-9) : Seconds(1e-3));
  book.end_step(Seconds(1), Phase::decode);
  std::vector<BeatenFloor> beaten = book.beaten_floors();
  ASSERT_EQ(beaten.size(), 1u);
  EXPECT_EQ(beaten[0].phase, Phase::decode);
  EXPECT_EQ(beaten[0].stage, "lm_head");
  EXPECT_LT(beaten[0].measured, beaten[0].floor);

  book.clear();
  run_step(book, program, shape, Phase::decode, 0.99, Seconds(1e-3));
  ASSERT_TRUE(book.beats_floor());
  EXPECT_EQ(book.beaten_floors()[0].stage, "");
  EXPECT_LT(book.phase(Phase::decode).kernels_above_floor(), Seconds(0)) << "nothing is clamped";
}

TEST(Book, an_untimed_step_is_judged_by_its_wall_time_alone) {
  const Program program = toy_program();
  Book book(program, toy_device());
  book.begin_step(decode_shape(1, 13));
  book.end_step(Seconds(1), Phase::decode);
  EXPECT_EQ(book.phase(Phase::decode).untimed_steps, 1);
  EXPECT_FALSE(book.beats_floor());
  book.begin_step(decode_shape(1, 13));
  book.end_step(Seconds(1e-9), Phase::prefill);
  ASSERT_EQ(book.beaten_floors().size(), 1u);
  EXPECT_EQ(book.beaten_floors()[0].phase, Phase::prefill);
}

TEST(Book, a_step_allocates_nothing) {
  const Program program = toy_program();
  Book book(program, toy_device());
  const StepShape shape{{{3, 9, 1}, {1, 40, 1}}};
  const int64_t before = n_allocations;
  for (int step = 0; step < 3; ++step) {
    book.begin_step(shape);
    for (size_t i = 0; i < program.ops.size(); ++i) book.post(i, Seconds(1e-6));
    book.end_step(Seconds(1e-3), Phase::decode);
  }
  EXPECT_EQ(n_allocations, before);
  EXPECT_GT(book.stages(Phase::decode).size(), 0u);
  EXPECT_GT(n_allocations, before) << "the counter counts";
}

TEST(Book, repricing_gives_the_floors_of_the_new_device_and_keeps_the_times) {
  const Program program = toy_program();
  Device faster = toy_device();
  for (MemoryLevel& level : faster.levels) level.read_rate = BytesPerSecond(90e9);
  faster.matmul_rate = faster.attention_rate = FlopsPerSecond(1e12);
  Book book(program, toy_device()), other(program, faster);
  for (Book* b : {&book, &other}) {
    run_step(*b, program, {{{12, 0, 1}, {3, 2, 1}}}, Phase::prefill, 1.1, Seconds(1e-5));
    for (int64_t context = 13; context < 16; ++context)
      run_step(*b, program, decode_shape(2, context), Phase::decode, 0.9, Seconds(1e-5));
  }
  const Seconds floor_before = book.phase(Phase::decode).floor.seconds;
  ASSERT_TRUE(book.beats_floor());
  book.reprice(faster, faster);
  EXPECT_FALSE(book.beats_floor());
  EXPECT_LT(book.phase(Phase::decode).floor.seconds, floor_before);
  for (const Phase p : {Phase::prefill, Phase::decode}) {
    const PhaseTotals &got = book.phase(p), &want = other.phase(p);
    EXPECT_EQ(got.work, want.work);
    EXPECT_EQ(got.floor.seconds, want.floor.seconds);
    EXPECT_EQ(got.floor_without_kv, want.floor_without_kv);
    EXPECT_EQ(got.wall, want.wall);
    EXPECT_EQ(got.kernels, want.kernels);
    EXPECT_EQ(got.steps, want.steps);
    EXPECT_EQ(got.rows, want.rows);
    EXPECT_EQ(got.home_rate, want.home_rate);
  }
}

TEST(BookDeathTest, a_step_inside_a_step_and_an_op_outside_one_are_our_bugs) {
  const Program program = toy_program();
  Book book(program, toy_device());
  EXPECT_DEATH(book.post(0, Seconds(1)), "is_open_");
  EXPECT_DEATH(book.end_step(Seconds(1), Phase::decode), "is_open_");
  book.begin_step(decode_shape(1, 1));
  EXPECT_DEATH(book.begin_step(decode_shape(1, 1)), "is_open_");
  EXPECT_DEATH(book.post(program.ops.size(), Seconds(1)), "op_index");
}

}  // namespace
}  // namespace ridge
