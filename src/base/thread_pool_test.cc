// SPDX-License-Identifier: Apache-2.0
#include "base/thread_pool.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

namespace ridge {
namespace {

double cpu_seconds() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         1e-6 * static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

TEST(ThreadPool, every_worker_runs_once_per_call_and_the_shares_cover_the_range) {
  for (int threads = 1; threads <= 5; ++threads) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.size(), threads);
    std::vector<int64_t> values(1003);
    for (int round = 0; round < 300; ++round) {
      const int used = 1 + round % threads;
      std::vector<int> calls(static_cast<size_t>(threads));
      pool.run(used, [&](const ThreadPool::Team& team) {
        EXPECT_EQ(team.count, used);
        ++calls[static_cast<size_t>(team.index)];
        const auto share = team.share_of(static_cast<int64_t>(values.size()));
        for (int64_t i = share.begin; i < share.end; ++i) values[static_cast<size_t>(i)] += i;
      });
      for (int i = 0; i < threads; ++i) {
        EXPECT_EQ(calls[static_cast<size_t>(i)], i < used ? 1 : 0);
      }
    }
    for (size_t i = 0; i < values.size(); ++i) {
      ASSERT_EQ(values[i], 300 * static_cast<int64_t>(i));
    }
  }
}

TEST(ThreadPool, the_caller_is_worker_zero) {
  ThreadPool pool(3);
  std::vector<std::thread::id> ids(3);
  pool.run(3, [&](const ThreadPool::Team& team) {
    ids[static_cast<size_t>(team.index)] = std::this_thread::get_id();
  });
  EXPECT_EQ(ids[0], std::this_thread::get_id());
  EXPECT_NE(ids[1], ids[0]);
  EXPECT_NE(ids[2], ids[0]);
  EXPECT_NE(ids[2], ids[1]);
}

// In each phase a worker reads what its neighbour wrote in the phase before: plain memory, so a
// barrier that lets anyone pass early gives a wrong number.
TEST(ThreadPool, a_barrier_separates_the_phases) {
  for (int threads = 1; threads <= 4; ++threads) {
    ThreadPool pool(threads);
    constexpr int kRounds = 2000;
    std::vector<int64_t> now(static_cast<size_t>(threads), 0), next = now;
    pool.run(threads, [&](const ThreadPool::Team& team) {
      const auto me = static_cast<size_t>(team.index);
      const auto neighbour = static_cast<size_t>((team.index + 1) % team.count);
      for (int round = 0; round < kRounds; ++round) {
        next[me] = now[neighbour] + 1;
        team.barrier();
        now[me] = next[neighbour] + 1;
        team.barrier();
      }
    });
    for (int64_t value : now) EXPECT_EQ(value, 2 * kRounds) << threads << " threads";
  }
}

TEST(ThreadPool, calls_and_barriers_after_a_pause_still_meet) {
  ThreadPool pool(3);
  std::atomic<int> sum{0};
  for (int round = 0; round < 20; ++round) {
    pool.run(2 + round % 2, [&](const ThreadPool::Team& team) {
      // One arrives when the others already sleep.
      if (team.index == round % team.count) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      team.barrier();
      sum.fetch_add(1);
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(sum.load(), 50);
}

TEST(ThreadPool, more_threads_than_cpus_make_progress) {
  ThreadPool pool(9);
  std::atomic<int> sum{0};
  for (int round = 0; round < 10; ++round) {
    pool.run(9, [&](const ThreadPool::Team& team) {
      for (int i = 0; i < 5; ++i) {
        team.barrier();
        sum.fetch_add(1, std::memory_order_relaxed);
      }
    });
  }
  EXPECT_EQ(sum.load(), 9 * 10 * 5);
}

TEST(ThreadPool, an_idle_pool_burns_no_cpu) {
  ThreadPool pool(4);
  pool.run(4, [](const ThreadPool::Team& team) { team.barrier(); });
  const double before = cpu_seconds();
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_LT(cpu_seconds() - before, 0.020);
}

TEST(ThreadPool, waiting_for_a_slow_worker_burns_no_cpu) {
  ThreadPool pool(4);
  const double before = cpu_seconds();
  pool.run(4, [](const ThreadPool::Team& team) {
    if (team.index == 1) std::this_thread::sleep_for(std::chrono::milliseconds(200));
    team.barrier();
  });
  EXPECT_LT(cpu_seconds() - before, 0.020);
}

TEST(ThreadPool, a_pool_that_never_ran_is_destroyed_quietly) {
  for (int threads = 1; threads <= 4; ++threads) ThreadPool pool(threads);
}

TEST(ThreadPool, running_inside_a_run_is_a_bug_that_is_caught) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        ThreadPool pool(2);
        pool.run(2, [&](const ThreadPool::Team& team) {
          if (team.index == 0) pool.run(2, [](const ThreadPool::Team&) {});
          team.barrier();
        });
      },
      "CHECK");
}

}  // namespace
}  // namespace ridge
