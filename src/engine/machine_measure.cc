// SPDX-License-Identifier: Apache-2.0
#include "engine/machine_measure.h"

#include <sched.h>

#include <algorithm>
#include <ctime>

#include "base/aligned_buffer.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/thread_pool.h"
#include "engine/machine_load.h"
#include "engine/machine_topology.h"
#include "kernels/probe.h"

namespace ridge {
namespace {

constexpr int64_t kSmallestShare = 16 << 10;  // of one thread: well inside any L1
constexpr int64_t kSmallestSet = 32 << 20;    // measured even where memory is short
constexpr int64_t kUsualSet = 256 << 20;      // enough where the caches are small
constexpr int64_t kFillStep = 64 << 20;
// Threads work in chunks and note the time after each: short ones, so that a busy machine still
// shows windows in which all threads ran together (a neighbour's time slice is a few ms).
constexpr Seconds kChunkSeconds{8e-6};
constexpr int64_t kChunkBytes = 128 << 10;  // of a set too large for one chunk
constexpr int kWindow = 32;                 // chunks of one thread
constexpr int kChunksPerWay = 2 * kWindow;  // then the next way to do it
constexpr int kWays = 4;
constexpr int kChunksMin = kWays * kChunksPerWay, kChunksMax = 1024;  // per visit
constexpr BytesPerSecond kFirstGuess{10e9};  // of one thread, until a try says better
constexpr FlopsPerSecond kFirstFlopsGuess{20e9};

// Ways to read; the rate of a level is the best of them. Prefetching 512 bytes ahead gained 15 % on
// sets beyond the caches with AVX-512, 4 KiB ahead 20 % on sets in L2 with plain vectors (a Xeon of
// family 6 model 167, 2026-11-30).
struct ReadWay {
  bool streams;
  int64_t ahead;
};
constexpr ReadWay kReadWays[kWays] = {{false, 0}, {false, 512}, {false, 4096}, {true, 0}};

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

std::vector<int> thread_counts(int usable) {
  std::vector<int> counts;
  for (int n = 1; n < usable; n *= 2) counts.push_back(n);
  counts.push_back(usable);
  return counts;
}

// Holds each thread of a pool to a CPU of its own: else a busy machine may run two in turn on one.
// The caller's thread gets its mask back at the end.
class Pinning {
 public:
  Pinning(ThreadPool& pool, const std::vector<int>& cpus) {
    if (static_cast<int>(cpus.size()) != pool.size()) return;
    if (sched_getaffinity(0, sizeof before_, &before_) != 0) return;
    pool.run(pool.size(), [&](const ThreadPool::Team& team) {
      const int cpu = cpus[static_cast<size_t>(team.index)];
      if (cpu < 0 || cpu >= CPU_SETSIZE) return;
      cpu_set_t mask;
      CPU_ZERO(&mask);
      CPU_SET(cpu, &mask);
      sched_setaffinity(0, sizeof mask, &mask);
    });
    restore_ = true;
  }
  ~Pinning() {
    if (restore_) sched_setaffinity(0, sizeof before_, &before_);
  }
  Pinning(const Pinning&) = delete;
  Pinning& operator=(const Pinning&) = delete;

 private:
  cpu_set_t before_;
  bool restore_ = false;
};

class Probe {
 public:
  Probe(Isa isa, int usable, const Topology& topology)
      : kernels_(probe_kernels(isa)),
        pool_(usable),
        pinning_(pool_, topology.cpus),
        logs_(usable),
        caches_(topology.caches) {}

  // Touches up to `wanted` bytes and keeps what the time allows.
  void fill(int64_t wanted, Seconds limit) {
    buffer_ = AlignedBuffer(static_cast<size_t>(wanted));
    const Seconds start = now();
    while (set_bytes_ < wanted && (set_bytes_ < kSmallestSet || now() - start < limit)) {
      const int64_t step = std::min(kFillStep, wanted - set_bytes_);
      std::byte* place = buffer_.data() + set_bytes_;
      pool_.run(pool_.size(), [&](const ThreadPool::Team& team) {
        const auto [begin, end] = team.share_of(step / kProbeGranule);
        for (int64_t page = begin; page < end; ++page) place[page * kProbeGranule] = std::byte{1};
      });
      set_bytes_ += step;
    }
  }

  int64_t set_bytes() const { return set_bytes_; }

  std::vector<ReadPoint> empty_curve(int threads) const {
    std::vector<ReadPoint> curve;
    for (int64_t bytes = kSmallestShare * threads; bytes < set_bytes_; bytes *= 2)
      curve.push_back({bytes, {}});
    curve.push_back({set_bytes_, {}});
    return curve;
  }

  void read(int threads, int round, ReadPoint& point) {
    const int64_t share = point.bytes / threads / kProbeGranule * kProbeGranule;
    const int64_t length = std::min(share, kChunkBytes);
    const int64_t places = share / length;
    // A chunk read twice would be found in a cache the second time.
    const int64_t sweeps = places > 1 ? 1
                                      : times_for(point.rate.value / threads, kFirstGuess.value,
                                                  static_cast<double>(length));
    const auto chunks = static_cast<int>(std::clamp<int64_t>(places, kChunksMin, kChunksMax));
    const auto warm_up = [&](int index) {
      // The largest set is not to be found in the caches.
      if (point.bytes < set_bytes_) kernels_.read(buffer_.data() + index * share, share, 0);
    };
    const auto chunk = [&](int index, int i) {
      const ReadWay way = kReadWays[(i / kChunksPerWay + round) % kWays];
      const int64_t place = (int64_t{round} * chunks + i) % places;
      const std::byte* data = buffer_.data() + index * share + place * length;
      for (int64_t s = 0; s < sweeps; ++s) {
        if (way.streams) {
          kernels_.read_streams(data, length);
        } else {
          kernels_.read(data, length, way.ahead);
        }
      }
    };
    run_chunks(threads, chunks, warm_up, chunk);
    const Bytes bytes(static_cast<double>(length * sweeps));
    point.rate = std::max(point.rate, bytes / seconds_per_chunk(threads, chunks));
  }

  // From one half of a set to the other.
  void copy(int threads, int round, int64_t set, BytesPerSecond& rate) {
    const int64_t half = set / 2 / kProbeGranule * kProbeGranule;
    const int64_t share = half / threads / kProbeGranule * kProbeGranule;
    const int64_t length = std::min(share, kChunkBytes / 2);
    const int64_t places = share / length;
    const auto chunk = [&](int index, int i) {
      const int64_t place = (int64_t{round} * kChunksMin + i) % places;
      std::byte* data = buffer_.data() + index * share + place * length;
      kernels_.copy(data, data + half, length, i / kChunksPerWay % 2 == 0);
    };
    const auto warm_up = [&](int index) {
      if (set == set_bytes_) return;
      kernels_.read(buffer_.data() + index * share, share, 0);
      kernels_.read(buffer_.data() + half + index * share, share, 0);
    };
    run_chunks(threads, kChunksMin, warm_up, chunk);
    const Bytes moved(2.0 * static_cast<double>(length));
    rate = std::max(rate, moved / seconds_per_chunk(threads, kChunksMin));
  }

  void multiply(int threads, void (*loop)(int64_t), int64_t flops_per_round, FlopsPerSecond& rate) {
    const auto flops = static_cast<double>(flops_per_round);
    const int64_t rounds = times_for(rate.value / threads, kFirstFlopsGuess.value, flops);
    run_chunks(threads, kChunksMin, nothing, [&](int, int) { loop(rounds); });
    rate = std::max(
        rate, Flops(flops * static_cast<double>(rounds)) / seconds_per_chunk(threads, kChunksMin));
  }

  void visit(int round, ThreadRates& rates) {
    for (ReadPoint& point : rates.read_curve) read(rates.threads, round, point);
    copy(rates.threads, round, last_cache_set(rates.threads), rates.cache_copy_rate);
    copy(rates.threads, round, set_bytes_, rates.memory_copy_rate);
    multiply(rates.threads, kernels_.fp32, kernels_.fp32_flops_per_round, rates.fp32_rate);
    multiply(rates.threads, kernels_.int8, kernels_.int8_flops_per_round, rates.int8_rate);
  }

 private:
  // When a thread's chunks began; the last entry: when the last one ended.
  struct alignas(128) Log {
    Seconds at[kChunksMax + 1];
  };

  // A set that the last cache holds and those further in do not; all there is where none is known.
  int64_t last_cache_set(int threads) const {
    if (caches_.empty()) return set_bytes_;
    int64_t inner = 0, capacity = 0;
    for (const CacheFacts& cache : caches_) {
      inner += capacity;
      capacity = cache.bytes * std::min(cache.instances, threads);
    }
    const int64_t set = std::min({set_bytes_, capacity / 2, std::max(4 * inner, kSmallestSet)});
    return std::max(set, 2 * kProbeGranule * threads);
  }

  static void nothing(int) {}

  // How often to repeat what takes `units` so that a chunk lasts kChunkSeconds.
  static int64_t times_for(double best_rate, double guess, double units) {
    const double rate = best_rate > 0 ? best_rate : guess;
    return std::max(int64_t{1}, static_cast<int64_t>(rate * kChunkSeconds.value / units));
  }

  template <class WarmUp, class Chunk>
  void run_chunks(int threads, int chunks, const WarmUp& warm_up, const Chunk& chunk) {
    pool_.run(threads, [&](const ThreadPool::Team& team) {
      warm_up(team.index);
      Log& log = logs_[team.index];
      team.barrier();
      log.at[0] = now();
      for (int i = 0; i < chunks; ++i) {
        chunk(team.index, i);
        log.at[i + 1] = now();
      }
    });
  }

  // Of the best window of kWindow chunks of the first thread, by the chunks that all threads began
  // and ended in it: a thread that was held up makes a window worse, never better.
  Seconds seconds_per_chunk(int threads, int chunks) const {
    double best = 0;  // chunks per second
    for (int i = 0; i + kWindow <= chunks; ++i) {
      const Seconds begin = logs_[0].at[i], end = logs_[0].at[i + kWindow];
      int64_t done = kWindow;
      for (int thread = 1; thread < threads; ++thread) {
        const Seconds* const first = logs_[thread].at;
        const Seconds* const past = first + chunks + 1;
        const Seconds* const begun = std::lower_bound(first, past, begin);
        const Seconds* const ended = std::upper_bound(begun, past, end);
        done += std::max<int64_t>(0, ended - begun - 1);
      }
      best = std::max(best, static_cast<double>(done) / std::max((end - begin).value, 1e-9));
    }
    return Seconds(1 / best);
  }

  const ProbeKernels& kernels_;
  ThreadPool pool_;
  Pinning pinning_;
  std::vector<Log> logs_;
  std::vector<CacheFacts> caches_;
  AlignedBuffer buffer_;
  int64_t set_bytes_ = 0;
};

int64_t wanted_set(const Topology& topology, const MeasureLimits& limits) {
  int64_t wanted = kUsualSet;
  if (topology.caches.empty()) wanted = limits.set_bytes_max;
  for (const CacheFacts& cache : topology.caches)
    wanted = std::max(wanted, 4 * cache.bytes * cache.instances);
  const int64_t available = available_memory();
  if (available > 0) wanted = std::min(wanted, available / 4);
  wanted = std::clamp(wanted, kSmallestSet, std::max(kSmallestSet, limits.set_bytes_max));
  return wanted / kProbeGranule * kProbeGranule;
}

void set_level_rates(const std::vector<CacheFacts>& caches, ThreadRates& rates) {
  int64_t inner = 0;
  for (const CacheFacts& cache : caches) {
    const int64_t capacity = cache.bytes * std::min(cache.instances, rates.threads);
    rates.read_rate.push_back(level_rate(rates.read_curve, inner, capacity, false));
    inner += capacity;
  }
  rates.read_rate.push_back(level_rate(rates.read_curve, inner, 0, true));
  // What came from further out came through the levels further in.
  for (size_t i = rates.read_rate.size() - 1; i-- > 0;)
    rates.read_rate[i] = std::max(rates.read_rate[i], rates.read_rate[i + 1]);
}

MachineProfile described_machine(Isa isa, const Topology& topology) {
  MachineProfile profile;
  profile.cpu = cpu_name();
  profile.isa = isa;
  profile.usable_cpus = usable_cpus();
  profile.packages = topology.packages;
  profile.cores = topology.cores;
  profile.numa_nodes = topology.numa_nodes;
  profile.memory_bytes = topology.memory_bytes;
  profile.caches = topology.caches;
  profile.date = utc_now();
  return profile;
}

}  // namespace

BytesPerSecond level_rate(const std::vector<ReadPoint>& curve, int64_t inner, int64_t capacity,
                          bool last) {
  CHECK(!curve.empty());
  BytesPerSecond best, of_largest;
  bool held_here = false;
  int64_t largest = 0;
  for (const ReadPoint& point : curve) {
    if (last || point.bytes <= capacity) largest = std::max(largest, point.bytes);
  }
  for (const ReadPoint& point : curve) {
    if (point.bytes > largest) break;
    if (point.bytes >= largest / 4) of_largest = std::max(of_largest, point.rate);
    if (point.bytes >= 2 * inner) {
      held_here = true;
      best = std::max(best, point.rate);
    } else if (point.bytes > inner) {
      // This much must have crossed, had the inner levels kept all they can.
      const double crossed = 1 - static_cast<double>(inner) / static_cast<double>(point.bytes);
      best = std::max(best, point.rate * crossed);
    }
  }
  return held_here ? best : std::max(best, of_largest);
}

MachineProfile measure_machine(Isa isa, const MeasureLimits& limits,
                               const ProbeProgress& progress) {
  const auto tell = [&](const char* what, double share) {
    if (progress) progress(what, share);
  };
  tell("looking at the topology", 0);
  const Topology topology = read_topology();
  MachineProfile profile = described_machine(isa, topology);
  const CpuLoad load;
  tell("touching memory", 0.02);
  Probe probe(isa, profile.usable_cpus, topology);
  probe.fill(wanted_set(topology, limits), limits.fill_seconds_max);
  profile.largest_set_bytes = probe.set_bytes();
  for (int threads : thread_counts(profile.usable_cpus)) {
    ThreadRates rates;
    rates.threads = threads;
    rates.read_curve = probe.empty_curve(threads);
    profile.rates.push_back(std::move(rates));
  }
  const Seconds start = now();
  for (int round = 0; round < limits.rounds_min || now() - start < limits.try_seconds; ++round) {
    for (ThreadRates& rates : profile.rates) {
      // One thread soon shows what it can; threads together need the luck of running together.
      if (rates.threads == 1 && profile.usable_cpus > 1 && round % 2 == 1) continue;
      tell("measuring bandwidth and multiply peaks",
           std::min(0.99, 0.25 + 0.75 * ((now() - start) / limits.try_seconds)));
      probe.visit(round, rates);
    }
  }
  for (ThreadRates& rates : profile.rates) set_level_rates(profile.caches, rates);
  profile.measured_while_busy = load.others_were_busy();
  tell("done", 1);
  return profile;
}

MachineProfile measure_machine(Isa isa, const ProbeProgress& progress) {
  return measure_machine(isa, MeasureLimits{}, progress);
}

}  // namespace ridge
