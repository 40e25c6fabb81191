// Every wait in here climbs the same stairs: spin with pause, then yield, then sleep on the value
// (std::atomic::wait). Whoever changes a waited-on value notifies, which costs one load while
// nobody sleeps. Values are changed by sequentially consistent read-modify-writes only: the change
// must not pass the look for sleepers. SPDX-License-Identifier: Apache-2.0
#include "base/thread_pool.h"

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "base/check.h"
#include "base/cpu_info.h"

namespace ridge {
namespace {

// About the cost of two sleeps and wakes: waiting longer than this, sleeping is cheaper.
constexpr std::chrono::microseconds kSpin{60};
constexpr std::chrono::microseconds kYield{40};
constexpr int kPausesPerLook = 16;
constexpr size_t kLineBytes = 128;  // two cache lines: the neighbour is prefetched with it

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

using Counter = std::atomic<uint32_t>;

// Waits until `value` is no longer `old`; what its changer wrote before is then visible. With more
// threads than CPUs, spinning only keeps the awaited one from running.
void wait_for_change(const Counter& value, uint32_t old, bool crowded) {
  using Clock = std::chrono::steady_clock;
  if (value.load(std::memory_order_acquire) != old) return;
  const Clock::time_point start = Clock::now();
  const auto spin = crowded ? Clock::duration::zero() : Clock::duration(kSpin);
  for (;;) {
    for (int i = 0; i < kPausesPerLook; ++i) {
      if (value.load(std::memory_order_acquire) != old) return;
      pause();
    }
    const auto waited = Clock::now() - start;
    if (waited > spin + kYield) break;
    if (waited > spin) std::this_thread::yield();
  }
  value.wait(old, std::memory_order_acquire);
}

}  // namespace

struct ThreadPool::State {
  // One per worker, so that a call with few threads leaves the others asleep.
  struct alignas(kLineBytes) Worker {
    Counter calls{0};
    std::thread thread;
  };

  explicit State(int n_threads) : workers(n_threads), n_cpus(usable_cpus()) {}

  bool crowded(int n_threads) const { return n_threads > n_cpus; }

  std::vector<Worker> workers;  // [0] is the caller: no thread
  int n_cpus;

  // The current call; written before the workers' `calls` are.
  void (*call)(void*, const Team&) = nullptr;
  void* work = nullptr;
  int count = 0;
  bool stopping = false;

  alignas(kLineBytes) Counter running{0};   // workers besides the caller still at it
  alignas(kLineBytes) Counter arrived{0};   // at the current barrier
  alignas(kLineBytes) Counter barriers{0};  // passed since the pool was made
};

ThreadPool::ThreadPool(int n_threads) {
  CHECK(n_threads >= 1);
  state_ = std::make_unique<State>(n_threads);
  for (int i = 1; i < n_threads; ++i) {
    state_->workers[i].thread = std::thread([this, i] { worker_loop(i); });
  }
}

ThreadPool::~ThreadPool() {
  state_->stopping = true;
  for (State::Worker& worker : state_->workers) {
    worker.calls.fetch_add(1);
    worker.calls.notify_one();
  }
  for (State::Worker& worker : state_->workers) {
    if (worker.thread.joinable()) worker.thread.join();
  }
}

int ThreadPool::size() const { return static_cast<int>(state_->workers.size()); }

void ThreadPool::Team::barrier() const {
  if (count == 1) return;
  State& state = *pool_->state_;
  // Read before arriving: after the last arrival it may change at once.
  const uint32_t passed = state.barriers.load(std::memory_order_relaxed);
  if (state.arrived.fetch_add(1, std::memory_order_acq_rel) + 1 == static_cast<uint32_t>(count)) {
    state.arrived.store(0, std::memory_order_relaxed);
    state.barriers.fetch_add(1);
    state.barriers.notify_all();
    return;
  }
  wait_for_change(state.barriers, passed, state.crowded(count));
}

void ThreadPool::run_erased(int n_threads, void (*call)(void*, const Team&), void* work) {
  State& state = *state_;
  CHECK(n_threads >= 1 && n_threads <= size());
  Team team;
  team.count = n_threads;
  team.pool_ = this;
  if (n_threads == 1) {
    call(work, team);
    return;
  }
  CHECK(state.running.load(std::memory_order_relaxed) == 0);
  state.call = call;
  state.work = work;
  state.count = n_threads;
  state.running.store(static_cast<uint32_t>(n_threads - 1), std::memory_order_relaxed);
  for (int i = 1; i < n_threads; ++i) {
    state.workers[i].calls.fetch_add(1);
    state.workers[i].calls.notify_one();
  }
  call(work, team);
  for (;;) {
    const uint32_t running = state.running.load(std::memory_order_acquire);
    if (running == 0) return;
    wait_for_change(state.running, running, state.crowded(n_threads));
  }
}

void ThreadPool::worker_loop(int index) {
  State& state = *state_;
  Counter& calls = state.workers[index].calls;
  Team team;
  team.index = index;
  team.pool_ = this;
  const bool crowded = state.crowded(size());
  for (uint32_t seen = 0;; ++seen) {
    wait_for_change(calls, seen, crowded);
    if (state.stopping) return;
    team.count = state.count;
    state.call(state.work, team);
    state.running.fetch_sub(1);
    state.running.notify_one();
  }
}

}  // namespace ridge
