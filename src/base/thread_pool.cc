// Every wait in here climbs the same stairs: spin with pause, then yield, then sleep on the value
// (std::atomic::wait). Whoever changes a waited-on value wakes the sleepers, if there are any.
// SPDX-License-Identifier: Apache-2.0
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

// A number that threads wait on. All operations that a sleeper could miss are sequentially
// consistent: either the changer sees the sleeper, or the sleeper sees the change.
class Gate {
 public:
  uint32_t value() const { return value_.load(std::memory_order_acquire); }
  void set_unwatched(uint32_t value) { value_.store(value, std::memory_order_relaxed); }
  void add(uint32_t delta) {
    value_.fetch_add(delta);
    if (sleepers_.load() != 0) value_.notify_all();
  }

  // Until the value is no longer `old`; what its changer wrote before is then visible. With more
  // threads than CPUs (`crowded`), spinning only keeps the awaited one from running.
  void wait_while(uint32_t old, bool crowded) {
    using Clock = std::chrono::steady_clock;
    if (value() != old) return;
    const Clock::time_point start = Clock::now();
    const auto spin = crowded ? Clock::duration::zero() : Clock::duration(kSpin);
    for (;;) {
      for (int i = 0; i < kPausesPerLook; ++i) {
        if (value() != old) return;
        pause();
      }
      const auto waited = Clock::now() - start;
      if (waited > spin + kYield) break;
      if (waited > spin) std::this_thread::yield();
    }
    sleepers_.fetch_add(1);
    value_.wait(old);
    sleepers_.fetch_sub(1);
  }

 private:
  std::atomic<uint32_t> value_{0};
  std::atomic<uint32_t> sleepers_{0};
};

}  // namespace

struct ThreadPool::State {
  // One per worker, so that a call with few threads leaves the others asleep.
  struct alignas(kLineBytes) Worker {
    Gate calls;
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

  alignas(kLineBytes) Gate running;                 // workers besides the caller still at it
  alignas(kLineBytes) std::atomic<int> arrived{0};  // at the current barrier
  alignas(kLineBytes) Gate barriers;                // passed since the pool was made
};

ThreadPool::ThreadPool(int n_threads) {
  CHECK(n_threads >= 1);
  state_ = std::make_unique<State>(n_threads);
  try {
    for (int i = 1; i < n_threads; ++i)
      state_->workers[i].thread = std::thread([this, i] { worker_loop(i); });
  } catch (...) {  // the system has no more threads: those that run must end before we do
    stop();
    throw;
  }
}

ThreadPool::~ThreadPool() { stop(); }

void ThreadPool::stop() {
  state_->stopping = true;
  for (State::Worker& worker : state_->workers) worker.calls.add(1);
  for (State::Worker& worker : state_->workers) {
    if (worker.thread.joinable()) worker.thread.join();
  }
}

int ThreadPool::size() const { return static_cast<int>(state_->workers.size()); }

void ThreadPool::Team::barrier() const {
  if (count == 1) return;
  State& state = *pool_->state_;
  // Read before arriving: after the last arrival it may change at once.
  const uint32_t passed = state.barriers.value();
  if (state.arrived.fetch_add(1, std::memory_order_acq_rel) + 1 == count) {
    state.arrived.store(0, std::memory_order_relaxed);
    state.barriers.add(1);
    return;
  }
  state.barriers.wait_while(passed, state.crowded(count));
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
  CHECK(state.running.value() == 0);  // else called from inside a call
  state.call = call;
  state.work = work;
  state.count = n_threads;
  state.running.set_unwatched(static_cast<uint32_t>(n_threads - 1));
  for (int i = 1; i < n_threads; ++i) state.workers[i].calls.add(1);
  call(work, team);
  while (const uint32_t running = state.running.value()) {
    state.running.wait_while(running, state.crowded(n_threads));
  }
}

void ThreadPool::worker_loop(int index) {
  State& state = *state_;
  Gate& calls = state.workers[index].calls;
  Team team;
  team.index = index;
  team.pool_ = this;
  const bool crowded = state.crowded(size());
  for (uint32_t seen = 0;; ++seen) {
    calls.wait_while(seen, crowded);
    if (state.stopping) return;
    team.count = state.count;
    state.call(state.work, team);
    state.running.add(~0u);
  }
}

}  // namespace ridge
