// What follows from a profile by arithmetic alone.
// SPDX-License-Identifier: Apache-2.0
#include "engine/machine.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"

namespace ridge {
namespace {

constexpr double kReachedShare = 0.97;  // of the best rate: the rest is noise of the measurement
constexpr int64_t kBeyondCaches = 4;    // times the last cache: at most a quarter can be hits

// The least rate that no run with `threads` threads can exceed, going by what was measured. Each
// thread brings `own` of what it uses (a core, a private cache) up to that many; 0: all is shared.
template <class Rate>
double ceiling(const MachineProfile& profile, int threads, int own, const Rate& rate_of) {
  double best = 0, per_thread = 0;
  // Neighbours keep threads from running all at once; then what one thread reached with its own
  // counts for each.
  if (profile.measured_while_busy) best = rate_of(profile.rates.front()) * std::min(own, threads);
  for (const ThreadRates& rates : profile.rates) {
    const double rate = rate_of(rates);
    if (rates.threads > threads) {
      return std::max(best, std::min(rate, per_thread * threads));
    }
    best = std::max(best, rate);
    per_thread = rate / rates.threads;
  }
  return best;
}

void keep_best(ReadPoint& into, const ReadPoint& from) {
  into.rate = std::max(into.rate, from.rate);
}

void merge_curve(std::vector<ReadPoint>& into, const std::vector<ReadPoint>& from) {
  for (const ReadPoint& point : from) {
    auto at =
        std::lower_bound(into.begin(), into.end(), point,
                         [](const ReadPoint& a, const ReadPoint& b) { return a.bytes < b.bytes; });
    if (at != into.end() && at->bytes == point.bytes) {
      keep_best(*at, point);
    } else {
      into.insert(at, point);
    }
  }
}

void merge_rates(ThreadRates& into, const ThreadRates& from) {
  for (size_t i = 0; i < into.read_rate.size(); ++i)
    into.read_rate[i] = std::max(into.read_rate[i], from.read_rate[i]);
  into.cache_copy_rate = std::max(into.cache_copy_rate, from.cache_copy_rate);
  into.memory_copy_rate = std::max(into.memory_copy_rate, from.memory_copy_rate);
  into.fp32_rate = std::max(into.fp32_rate, from.fp32_rate);
  into.int8_rate = std::max(into.int8_rate, from.int8_rate);
  merge_curve(into.read_curve, from.read_curve);
}

// Two profiles whose figures mean the same things.
bool comparable(const MachineProfile& a, const MachineProfile& b) {
  return a.cpu == b.cpu && a.isa == b.isa && a.usable_cpus == b.usable_cpus &&
         std::equal(a.caches.begin(), a.caches.end(), b.caches.begin(), b.caches.end(),
                    [](const CacheFacts& x, const CacheFacts& y) {
                      return x.level == y.level && x.bytes == y.bytes && x.instances == y.instances;
                    }) &&
         std::equal(
             a.rates.begin(), a.rates.end(), b.rates.begin(), b.rates.end(),
             [](const ThreadRates& x, const ThreadRates& y) { return x.threads == y.threads; });
}

}  // namespace

namespace {

// The measured sweeps beyond the private caches, for at least `threads` threads: a ceiling, so a
// set is given the rate of any larger one that did better.
std::vector<SweepRate> sweeps_of(const MachineProfile& profile, int threads, Bytes private_caches) {
  const auto enough = std::find_if(profile.rates.begin(), profile.rates.end(),
                                   [&](const ThreadRates& r) { return r.threads >= threads; });
  const ThreadRates& rates = enough == profile.rates.end() ? profile.rates.back() : *enough;
  std::vector<SweepRate> sweeps;
  for (const ReadPoint& point : rates.read_curve) {
    const Bytes set(static_cast<double>(point.bytes));
    if (set > private_caches) sweeps.push_back({set, point.rate});
  }
  for (size_t i = sweeps.size(); i-- > 1;)
    sweeps[i - 1].rate = std::max(sweeps[i - 1].rate, sweeps[i].rate);
  return sweeps;
}

}  // namespace

int MachineProfile::decode_threads() const {
  CHECK(!rates.empty());
  BytesPerSecond best;
  for (const ThreadRates& entry : rates) best = std::max(best, entry.read_rate.back());
  for (const ThreadRates& entry : rates) {
    if (entry.read_rate.back() >= best * kReachedShare) return entry.threads;
  }
  return usable_cpus;
}

bool MachineProfile::memory_beyond_caches() const {
  return caches.empty() || largest_set_bytes >= kBeyondCaches * caches.back().bytes *
                                                    std::max(1, caches.back().instances);
}

Device device_of(const MachineProfile& profile, int threads, bool exact) {
  CHECK(!profile.rates.empty() && threads >= 1);
  Device device;
  device.name = profile.cpu;
  for (size_t i = 0; i <= profile.caches.size(); ++i) {
    MemoryLevel level{"memory", Bytes(0), BytesPerSecond(0)};
    const bool is_cache = i < profile.caches.size();
    if (is_cache) {
      const CacheFacts& cache = profile.caches[i];
      level.name = fmt::format("L{}", cache.level);
      // As if the threads were spread over as many instances as there are.
      level.capacity = Bytes(static_cast<double>(cache.bytes) * std::min(cache.instances, threads));
    }
    const int own = is_cache && profile.caches[i].instances > 1 ? profile.caches[i].instances : 0;
    level.read_rate = BytesPerSecond(
        ceiling(profile, threads, own, [i](const ThreadRates& r) { return r.read_rate[i].value; }));
    device.levels.push_back(std::move(level));
  }
  // What came from further out came through here as well.
  for (size_t i = device.levels.size() - 1; i-- > 0;) {
    device.levels[i].read_rate =
        std::max(device.levels[i].read_rate, device.levels[i + 1].read_rate);
  }
  // All but the last cache are private; with no other, nothing is.
  Bytes private_caches;
  for (size_t i = 0; i + 2 < device.levels.size(); ++i) private_caches += device.levels[i].capacity;
  device.sweeps = sweeps_of(profile, threads, private_caches);
  const FlopsPerSecond fp32(ceiling(profile, threads, profile.cores,
                                    [](const ThreadRates& r) { return r.fp32_rate.value; }));
  const FlopsPerSecond int8(ceiling(profile, threads, profile.cores,
                                    [](const ThreadRates& r) { return r.int8_rate.value; }));
  device.matmul_rate = exact ? fp32 : int8;
  device.matmul_arithmetic = exact ? "fp32" : "int8";
  device.attention_rate = fp32;
  device.source = fmt::format("measured {}, {} thread{}, {}", profile.date.substr(0, 10), threads,
                              threads == 1 ? "" : "s", name_of(profile.isa));
  if (profile.measured_while_busy) device.source += ", while others were busy";
  return device;
}

MachineProfile merge_best(const MachineProfile& a, const MachineProfile& b) {
  const MachineProfile& newer = a.date > b.date ? a : b;
  if (!comparable(a, b)) return newer;
  const MachineProfile& older = a.date > b.date ? b : a;
  MachineProfile merged = newer;
  for (size_t i = 0; i < merged.rates.size(); ++i) merge_rates(merged.rates[i], older.rates[i]);
  merged.measured_while_busy = a.measured_while_busy && b.measured_while_busy;
  merged.largest_set_bytes = std::max(a.largest_set_bytes, b.largest_set_bytes);
  return merged;
}

}  // namespace ridge
