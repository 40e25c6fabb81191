// A persistent team of threads that run one function together and meet at barriers inside it. The
// caller is worker 0. Between calls workers spin for a moment, then park: an idle process burns no
// CPU.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>

namespace ridge {

class ThreadPool {
 public:
  // Throws std::system_error if the system has no more threads.
  explicit ThreadPool(int n_threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const;

  class Team {
   public:
    int index = 0;  // of this worker, 0 is the caller
    int count = 1;
    // Waits until all workers of this call are here.
    void barrier() const;
    // This worker's part of [0, n), cut into `count` nearly equal runs.
    struct Range {
      int64_t begin, end;
    };
    Range share_of(int64_t n) const { return {n * index / count, n * (index + 1) / count}; }

   private:
    friend class ThreadPool;
    ThreadPool* pool_ = nullptr;
  };

  // Runs `work` on the first `n_threads` workers (1..size()) and returns when all are done.
  // Allocates nothing. Must not be called from inside `work`.
  template <class Work>
  void run(int n_threads, Work&& work) {
    run_erased(
        n_threads,
        [](void* w, const Team& team) { (*static_cast<std::remove_reference_t<Work>*>(w))(team); },
        &work);
  }

 private:
  struct State;
  void run_erased(int n_threads, void (*call)(void*, const Team&), void* work);
  void worker_loop(int index);
  void stop();
  std::unique_ptr<State> state_;
};

}  // namespace ridge
