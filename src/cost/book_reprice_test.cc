// The law's way out: a time below its floor convicts the ceiling, and steps priced anew on one that
// was measured again are as if they had been priced on it from the start.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "base/check.h"
#include "cost/book.h"
#include "cost/work_of.h"
#include "program/lower.h"

namespace ridge {
namespace {

Device device_of_rate(double gigabytes_per_second, double gigaflops) {
  return {.name = "toy",
          .levels = {{"memory", Bytes(0), BytesPerSecond(gigabytes_per_second * 1e9)}},
          .matmul_rate = FlopsPerSecond(gigaflops * 1e9),
          .attention_rate = FlopsPerSecond(gigaflops * 1e9),
          .wire_rate = BytesPerSecond(0),
          .matmul_arithmetic = "int8",
          .source = "invented"};
}

Program toy_program() {
  ModelSpec spec{.architecture = Architecture::llama};
  spec.n_layers = 3, spec.d_model = 96, spec.n_heads = 6, spec.n_kv_heads = 2, spec.head_dim = 32;
  spec.d_ff = 160, spec.vocab_size = 130;
  spec.default_weight_dtype = DType::q4_0;
  spec.rope.dims = 32;
  const Result<Program> program = lower(spec);
  CHECK(program.has_value());
  return fuse(*program);
}

// A run whose ops take exactly their floor on `truth`, times `slowness`.
Book run_on(const Program& program, const Device& believed, const Device& truth, double slowness) {
  Book book(program, believed);
  for (int64_t context = 5; context < 9; ++context) {
    const StepShape shape = decode_shape(1, context);
    const Bytes recurring = work_of(program, shape).streamed_bytes();
    Seconds wall;
    book.begin_step(shape);
    for (size_t i = 0; i < program.ops.size(); ++i) {
      const Seconds seconds =
          floor_seconds(work_of(program.ops[i], shape), truth, recurring).seconds * slowness;
      book.post(i, seconds);
      wall += seconds;
    }
    book.end_step(wall, Phase::decode);
  }
  return book;
}

TEST(BookReprice, a_ceiling_measured_while_neighbours_were_busy_is_convicted_and_mended) {
  const Program program = toy_program();
  const Device truth = device_of_rate(40, 900), disturbed = device_of_rate(20, 450);
  Book book = run_on(program, disturbed, truth, 1.2);
  ASSERT_TRUE(book.beats_floor());
  EXPECT_GT(book.phase(Phase::decode).mbu(), 1) << "nothing is clamped";
  book.reprice(truth, truth);
  EXPECT_FALSE(book.beats_floor());
  EXPECT_LT(book.phase(Phase::decode).mbu(), 1);
}

TEST(BookReprice, a_time_too_fast_for_the_true_ceiling_stays_convicted) {
  const Program program = toy_program();
  const Device truth = device_of_rate(40, 900);
  Book book = run_on(program, truth, truth, 1.2);
  EXPECT_FALSE(book.beats_floor());
  book.begin_step(decode_shape(1, 9));
  for (size_t i = 0; i < program.ops.size(); ++i) book.post(i, Seconds(1e-12));
  book.end_step(Seconds(1e-9), Phase::decode);
  // Four steps at 1.2 floors and one in no time: 4.8 of 5.
  EXPECT_TRUE(book.beats_floor());
  book.reprice(truth, truth);
  EXPECT_TRUE(book.beats_floor());
}

TEST(BookReprice, each_phase_is_priced_on_its_own_device) {
  const Program program = toy_program();
  const Device fast = device_of_rate(80, 900), slow = device_of_rate(20, 900);
  Book book(program, fast, fast);
  for (const Phase phase : {Phase::prefill, Phase::decode}) {
    book.begin_step(decode_shape(1, 9));
    book.end_step(Seconds(1), phase);
  }
  EXPECT_EQ(book.phase(Phase::prefill).floor.seconds, book.phase(Phase::decode).floor.seconds);
  book.reprice(fast, slow);
  EXPECT_LT(book.phase(Phase::prefill).floor.seconds, book.phase(Phase::decode).floor.seconds);
  EXPECT_EQ(book.device(Phase::decode).levels[0].read_rate, slow.levels[0].read_rate);
}

TEST(BookReprice, pricing_twice_is_pricing_once) {
  const Program program = toy_program();
  const Device truth = device_of_rate(40, 900), other = device_of_rate(7, 31);
  Book book = run_on(program, truth, truth, 1.2), untouched = run_on(program, truth, truth, 1.2);
  book.reprice(other, other);
  EXPECT_NE(book.phase(Phase::decode).floor.seconds, untouched.phase(Phase::decode).floor.seconds);
  book.reprice(truth, truth);
  const PhaseTotals &got = book.phase(Phase::decode), &want = untouched.phase(Phase::decode);
  EXPECT_EQ(got.work, want.work);
  EXPECT_EQ(got.floor.seconds, want.floor.seconds);
  EXPECT_EQ(got.floor_by_roof, want.floor_by_roof);
  EXPECT_EQ(got.wall, want.wall);
  EXPECT_EQ(got.kernels, want.kernels);
}

TEST(BookReprice, a_book_without_steps_has_nothing_to_price) {
  Book book(toy_program(), device_of_rate(40, 900));
  book.reprice(device_of_rate(1, 1), device_of_rate(1, 1));
  EXPECT_FALSE(book.beats_floor());
  EXPECT_EQ(book.phase(Phase::decode).steps, 0);
}

}  // namespace
}  // namespace ridge
