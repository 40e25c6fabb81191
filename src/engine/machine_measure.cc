// SPDX-License-Identifier: Apache-2.0
#include "engine/machine_measure.h"

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
// Larger shares of a thread are timed in pieces of one sweep, each under a millisecond: a whole
// sweep takes longer than a busy machine lets threads run together.
constexpr int64_t kCutFrom = 16 << 20;
constexpr int64_t kCut = 4 << 20;
constexpr int64_t kFillStep = 64 << 20;
constexpr int kPieces = 4;  // tries per visit, at least
constexpr int kPiecesMax = 128;
constexpr int kCopyPieces = 32;              // streaming and plain stores in turn
constexpr Seconds kPieceSeconds{0.5e-3};     // short: a neighbour's time slice is a few ms
constexpr BytesPerSecond kFirstGuess{10e9};  // of one thread, until a try says better
constexpr FlopsPerSecond kFirstFlopsGuess{20e9};

// Ways to read; the rate of a level is the best of them. Prefetching 512 bytes ahead gained 15 % on
// sets beyond the caches with AVX-512, 4 KiB ahead 20 % on sets in L2 with plain vectors (a Xeon of
// family 6 model 167, 2026-11-30).
struct ReadWay {
  bool streams;
  int64_t ahead;
};
constexpr ReadWay kReadWays[kPieces] = {{false, 0}, {false, 512}, {false, 4096}, {true, 0}};

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

class Probe {
 public:
  Probe(Isa isa, int usable) : kernels_(probe_kernels(isa)), pool_(usable), times_(usable) {}

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
    const int cuts =
        share > kCutFrom ? static_cast<int>(std::min<int64_t>(share / kCut, kPiecesMax)) : 1;
    const int64_t length = share / cuts / kProbeGranule * kProbeGranule;
    const int64_t sweeps = times_for(point.rate.value, kFirstGuess.value * threads,
                                     static_cast<double>(length * threads));
    // Below the largest set a sweep before the clock starts fills the caches.
    const auto warm_up = [&](int index) {
      if (point.bytes < set_bytes_) kernels_.read(buffer_.data() + index * share, share, 0);
    };
    const auto piece = [&](int index, int i) {
      const ReadWay way = kReadWays[(i + round) % kPieces];
      const std::byte* place = buffer_.data() + index * share + i % cuts * length;
      for (int64_t s = 0; s < sweeps; ++s) {
        if (way.streams) {
          kernels_.read_streams(place, length);
        } else {
          kernels_.read(place, length, way.ahead);
        }
      }
    };
    const Bytes bytes(static_cast<double>(length * threads * sweeps));
    point.rate =
        std::max(point.rate, bytes / best_of(threads, std::max(cuts, kPieces), warm_up, piece));
  }

  // From one half of the set to the other.
  void copy(int threads, BytesPerSecond& rate) {
    const int64_t half = set_bytes_ / 2 / kProbeGranule * kProbeGranule;
    const int64_t share = half / threads / kProbeGranule * kProbeGranule;
    const int64_t length = share / kCopyPieces / kProbeGranule * kProbeGranule;
    const auto piece = [&](int index, int i) {
      std::byte* place = buffer_.data() + index * share + i * length;
      kernels_.copy(place, place + half, length, i % 2 == 0);
    };
    const Bytes moved(2.0 * static_cast<double>(length * threads));
    rate = std::max(rate, moved / best_of(threads, kCopyPieces, nothing, piece));
  }

  void multiply(int threads, void (*loop)(int64_t), int64_t flops_per_round, FlopsPerSecond& rate) {
    const auto flops_of_all = static_cast<double>(flops_per_round * threads);
    const int64_t rounds = times_for(rate.value, kFirstFlopsGuess.value * threads, flops_of_all);
    const Flops flops(flops_of_all * static_cast<double>(rounds));
    rate =
        std::max(rate, flops / best_of(threads, kPieces, nothing, [&](int, int) { loop(rounds); }));
  }

  void visit(int round, ThreadRates& rates) {
    for (ReadPoint& point : rates.read_curve) read(rates.threads, round, point);
    copy(rates.threads, rates.memory_copy_rate);
    multiply(rates.threads, kernels_.fp32, kernels_.fp32_flops_per_round, rates.fp32_rate);
    multiply(rates.threads, kernels_.int8, kernels_.int8_flops_per_round, rates.int8_rate);
  }

 private:
  static void nothing(int) {}

  struct alignas(128) Times {
    Seconds begin[kPiecesMax], end[kPiecesMax];
  };

  // How often to repeat what takes `units` so that a piece lasts kPieceSeconds.
  static int64_t times_for(double best_rate, double guess, double units) {
    const double rate = best_rate > 0 ? best_rate : guess;
    return std::max(int64_t{1}, static_cast<int64_t>(rate * kPieceSeconds.value / units));
  }

  // The shortest of so many tries, all in one call, so that threads which found themselves running
  // together make several. A try lasts from the first thread's start to the last one's end: a
  // thread that was held up makes it worse, never better.
  template <class WarmUp, class Piece>
  Seconds best_of(int threads, int pieces, const WarmUp& warm_up, const Piece& piece) {
    pool_.run(threads, [&](const ThreadPool::Team& team) {
      warm_up(team.index);
      Times& times = times_[team.index];
      for (int i = 0; i < pieces; ++i) {
        team.barrier();
        times.begin[i] = now();
        piece(team.index, i);
        times.end[i] = now();
      }
    });
    Seconds best(1e9);
    for (int i = 0; i < pieces; ++i) {
      Seconds begin = times_[0].begin[i], end = times_[0].end[i];
      for (int thread = 1; thread < threads; ++thread) {
        begin = std::min(begin, times_[thread].begin[i]);
        end = std::max(end, times_[thread].end[i]);
      }
      best = std::min(best, end - begin);
    }
    return std::max(best, Seconds(1e-9));
  }

  const ProbeKernels& kernels_;
  ThreadPool pool_;
  std::vector<Times> times_;
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
  BytesPerSecond best, largest;
  bool held_here = false;
  for (const ReadPoint& point : curve) {
    if (!last && point.bytes > capacity) break;
    largest = point.rate;
    if (point.bytes >= 2 * inner) {
      held_here = true;
      best = std::max(best, point.rate);
    } else if (point.bytes > inner) {
      // This much must have crossed, had the inner levels kept all they can.
      const double crossed = 1 - static_cast<double>(inner) / static_cast<double>(point.bytes);
      best = std::max(best, point.rate * crossed);
    }
  }
  return held_here ? best : std::max(best, largest);
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
  Probe probe(isa, profile.usable_cpus);
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
