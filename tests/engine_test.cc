// A step and its sampling allocate nothing once everything is warm, on any number of threads, in
// either mode. The whole test program counts what it allocates.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "engine/sampler.h"
#include "tests/golden_files.h"
#include "tests/test_session.h"

namespace {

std::atomic<int64_t> n_allocations{0};

void* counted(void* p) {
  n_allocations.fetch_add(1, std::memory_order_relaxed);
  if (p == nullptr) std::abort();
  return p;
}

}  // namespace

// Not inlined: g++ would see malloc paired with delete and warn.
[[gnu::noinline]] void* operator new(size_t bytes) { return counted(std::malloc(bytes)); }
[[gnu::noinline]] void* operator new(size_t bytes, std::align_val_t alignment) {
  const auto a = static_cast<size_t>(alignment);
  return counted(std::aligned_alloc(a, (bytes + a - 1) / a * a));
}
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, size_t) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, size_t, std::align_val_t) noexcept { std::free(p); }

namespace ridge {
namespace {

// One sequence on an executor of its own, so that a step is nothing but a step.
class Loop {
 public:
  static constexpr int64_t kContext = 700;

  Loop(TestModel& m, int threads)
      : m_(m),
        threads_(threads),
        kv_(m.model->spec(), kv_pages_for(kContext)),
        pages_(kv_.pool(), kContext),
        executor_(m.model->fused(), m.model->weights(), kv_, m.pool,
                  {.limits = {.max_rows = 64,
                              .max_sequences = 1,
                              .max_logit_rows = 1,
                              .max_context = kContext,
                              .threads = threads},
                   .isa = test_isa(),
                   .exact = m.model->exact()}),
        batch_(64, 1) {
    tokens_.reserve(kContext + 1);
  }

  // Feeds all tokens that are not cached, 64 at most, and draws the next.
  void step(Sampler& sampler) {
    const auto n = std::min<int64_t>(64, static_cast<int64_t>(tokens_.size()) - cached_);
    ASSERT_TRUE(pages_.grow_to(cached_ + n));
    batch_.clear();
    batch_.add(tokens_.data() + cached_, n, cached_, 1, pages_.data());
    m_.book->begin_step(batch_.shape());
    const float* logits = executor_.step(batch_, threads_, m_.book.get());
    cached_ += n;
    if (cached_ == static_cast<int64_t>(tokens_.size()))
      tokens_.push_back(sampler.sample(const_cast<float*>(logits), tokens_));
    m_.book->end_step(Seconds(1), n == 1 ? Phase::decode : Phase::prefill);
  }
  std::vector<TokenId>& tokens() { return tokens_; }

 private:
  TestModel& m_;
  int threads_;
  KvStore kv_;
  PageTable pages_;
  Executor executor_;
  Batch batch_;
  std::vector<TokenId> tokens_;
  int64_t cached_ = 0;
};

void expect_no_allocation(TestModel& m, int threads, const SamplingParams& params,
                          const std::string& what) {
  Loop loop(m, threads);
  Sampler sampler(params, m.vocab());
  loop.tokens().resize(220, 5);
  // Warm-up: the prompt, in chunks of 64, and one token.
  for (int i = 0; i < 5; ++i) loop.step(sampler);
  const int64_t before = n_allocations;
  for (int i = 0; i < 45; ++i) loop.step(sampler);  // crosses a page and a KV split
  EXPECT_EQ(n_allocations - before, 0) << what << ", " << threads << " threads";
}

TEST(EngineAllocations, a_step_with_its_sampling_allocates_nothing_once_warm) {
  SamplingParams everything{.temperature = 0.9, .top_k = 0};
  everything.repetition_penalty = 1.1;
  everything.frequency_penalty = everything.presence_penalty = 0.1;
  for (const std::string& model : tiny_models()) {
    for (const bool exact : {false, true}) {
      TestModel m(tiny_path(model + ".gguf"), {.exact = exact});
      expect_no_allocation(m, 1, {.temperature = 0}, model + " greedy");
      expect_no_allocation(m, 1, everything, model + " with penalties");
      if (model == "gemma3") expect_no_allocation(m, 2, {}, model + " by default");
    }
  }
}

TEST(EngineAllocations, the_first_step_after_construction_is_warm_already) {
  TestModel m(tiny_path("gemma3.gguf"));
  Loop loop(m, 2);
  Sampler sampler({}, m.vocab());
  loop.tokens().resize(64, 5);
  const int64_t before = n_allocations;
  loop.step(sampler);
  EXPECT_EQ(n_allocations - before, 0);
}

TEST(EngineAllocations, the_counter_counts) {
  const int64_t before = n_allocations;
  std::vector<int> v(100);
  EXPECT_EQ(n_allocations - before, 1) << v.size();
}

// The law on a run of the engine itself: honest times never beat the floor of a device that is as
// fast as can be, and do beat that of one that is described as absurdly slow.
TEST(EngineLaw, a_real_run_beats_the_floor_of_a_device_described_too_slow_and_no_other) {
  TestModel m(tiny_path("llama.gguf"));
  const auto session = m.session({.isa = test_isa(), .context = 128});
  const TokenId prompt[] = {5, 6, 7, 8};
  ASSERT_TRUE(generate(*session, prompt, greedy_options(5)).has_value());
  EXPECT_FALSE(m.book->beats_floor());
  Device slow = test_device();
  slow.levels[0].read_rate = BytesPerSecond(1e3);
  m.book->reprice(slow, slow);
  EXPECT_TRUE(m.book->beats_floor());
  m.book->reprice(test_device(), test_device());
  EXPECT_FALSE(m.book->beats_floor());
}

}  // namespace
}  // namespace ridge
