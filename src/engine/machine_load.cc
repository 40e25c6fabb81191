// SPDX-License-Identifier: Apache-2.0
#include "engine/machine_load.h"

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>

#include "base/clock.h"
#include "base/cpu_info.h"

namespace ridge {
namespace {

constexpr double kBusyShare = 0.05;
constexpr double kMadeWayPerSecond = 20;

// The first number in a file, or -1 (missing, or a word such as "max").
int64_t number_in(const char* path) {
  std::ifstream file(path);
  int64_t number = -1;
  return file >> number ? number : -1;
}

int64_t meminfo_available() {
  std::ifstream file("/proc/meminfo");
  std::string key;
  int64_t kilobytes = 0;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    if (words >> key >> kilobytes && key == "MemAvailable:") return kilobytes * 1024;
  }
  return 0;
}

// Time that the usable CPUs were not idle, other guests' included. Fields: proc(5), /proc/stat.
Seconds busy_seconds() {
  cpu_set_t mask;
  const bool masked = sched_getaffinity(0, sizeof mask, &mask) == 0;
  std::ifstream file("/proc/stat");
  double ticks = 0;
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("cpu", 0) != 0 || line.size() < 4 || line[3] == ' ') continue;
    std::istringstream words(line.substr(3));
    int cpu = 0;
    double user = 0, nice = 0, system = 0, idle = 0, wait = 0, irq = 0, soft = 0, steal = 0;
    if (!(words >> cpu >> user >> nice >> system >> idle >> wait >> irq >> soft >> steal)) continue;
    if (masked && (cpu < 0 || cpu >= CPU_SETSIZE || !CPU_ISSET(cpu, &mask))) continue;
    ticks += user + nice + system + irq + soft + steal;
  }
  return Seconds(ticks / static_cast<double>(sysconf(_SC_CLK_TCK)));
}

Seconds own_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return Seconds(seconds(usage.ru_utime) + seconds(usage.ru_stime));
}

// Involuntary context switches.
int64_t times_made_way() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_nivcsw;
}

}  // namespace

int64_t available_memory() {
  int64_t available = meminfo_available();
  // cgroup v2 as a container sees its own; outside of one the root has no such file.
  const int64_t limit = number_in("/sys/fs/cgroup/memory.max");
  const int64_t used = number_in("/sys/fs/cgroup/memory.current");
  if (limit > 0 && used >= 0) {
    const int64_t left = std::max(int64_t{1}, limit - used);
    available = available > 0 ? std::min(available, left) : left;
  }
  return available;
}

CpuLoad::CpuLoad()
    : start_(now()), all_(busy_seconds()), own_(own_seconds()), made_way_(times_made_way()) {}

bool CpuLoad::others_were_busy() const {
  const Seconds wall = now() - start_;
  const Seconds others = (busy_seconds() - all_) - (own_seconds() - own_);
  const auto made_way = static_cast<double>(times_made_way() - made_way_);
  return others > wall * (usable_cpus() * kBusyShare) || made_way > wall.value * kMadeWayPerSecond;
}

}  // namespace ridge
