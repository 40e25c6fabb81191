// SPDX-License-Identifier: Apache-2.0
#include "cli/machine_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <vector>

#include "cli/commands.h"
#include "cli/terminal.h"

namespace ridge {
namespace {

double giga(double value) { return value * 1e-9; }

std::string counted(int n, const char* noun) {
  if (n == 0) return fmt::format("unknown {}s", noun);
  return fmt::format("{} {}{}", n, noun, n == 1 ? "" : "s");
}

// 48 KiB, 2 MiB, 1.5 MiB
std::string binary_size(int64_t bytes) {
  const char* const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes);
  int unit = 0;
  for (; value >= 1024 && unit < 4; ++unit) value /= 1024;
  std::string text = fmt::format("{:.1f}", value);
  if (text.ends_with(".0")) text.resize(text.size() - 2);
  return text + " " + units[unit];
}

std::string caches_line(const MachineProfile& profile) {
  if (profile.caches.empty()) return "unknown";
  std::string line;
  for (const CacheFacts& cache : profile.caches)
    line += fmt::format("{}L{} {} x {}", line.empty() ? "" : ", ", cache.level,
                        binary_size(cache.bytes), cache.instances);
  return line + " (as the system reports them)";
}

using Row = std::vector<std::string>;

// Columns as wide as their widest cell, all right-aligned.
std::string aligned(const std::vector<Row>& rows) {
  std::vector<size_t> widths;
  for (const Row& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const Row& row : rows) {
    for (size_t i = 0; i < row.size(); ++i)
      text += fmt::format("{}{:>{}}", i == 0 ? "" : "  ", row[i], widths[i]);
    text += "\n";
  }
  return text;
}

std::string rates_table(const MachineProfile& profile) {
  Row titles = {"threads"};
  Row units = {""};
  for (const CacheFacts& cache : profile.caches) titles.push_back(fmt::format("L{}", cache.level));
  titles.push_back("memory");
  units.resize(titles.size(), "GB/s");
  const std::string last_cache =
      profile.caches.empty() ? "" : fmt::format("L{} ", profile.caches.back().level);
  for (const auto& title :
       {last_cache + "copy", std::string("copy"), std::string("fp32"), std::string("int8")})
    titles.push_back(title);
  for (const char* unit : {"GB/s", "GB/s", "GFLOP/s", "GOP/s"}) units.push_back(unit);
  std::vector<Row> rows = {titles, units};
  for (const ThreadRates& rates : profile.rates) {
    Row row = {std::to_string(rates.threads)};
    for (BytesPerSecond rate : rates.read_rate)
      row.push_back(fmt::format("{:.1f}", giga(rate.value)));
    row.push_back(fmt::format("{:.1f}", giga(rates.cache_copy_rate.value)));
    row.push_back(fmt::format("{:.1f}", giga(rates.memory_copy_rate.value)));
    row.push_back(fmt::format("{:.0f}", giga(rates.fp32_rate.value)));
    row.push_back(fmt::format("{:.0f}", giga(rates.int8_rate.value)));
    rows.push_back(row);
  }
  return "Best rates seen: reads from each level, copies (read + written), multiplies\n" +
         aligned(rows);
}

std::string curve_table(const MachineProfile& profile) {
  const ThreadRates& rates = profile.rates.back();
  std::vector<Row> rows = {{"set"}, {"GB/s"}};
  for (const ReadPoint& point : rates.read_curve) {
    std::string size = binary_size(point.bytes);
    std::erase(size, ' ');
    if (size.ends_with("iB")) size.resize(size.size() - 2);
    rows[0].push_back(size);
    rows[1].push_back(fmt::format("{:.0f}", giga(point.rate.value)));
  }
  return fmt::format("Reads by size of the set swept again and again, {}\n",
                     counted(rates.threads, "thread")) +
         aligned(rows);
}

std::string choice_lines(const MachineProfile& profile) {
  const int decode = profile.decode_threads();
  double best = 0;
  for (const ThreadRates& rates : profile.rates)
    best = std::max(best, rates.read_rate.back().value);
  std::string reason = "the fewest that come within 3 % of the best memory read rate";
  const ThreadRates* before = nullptr;
  for (const ThreadRates& rates : profile.rates) {
    if (rates.threads < decode) before = &rates;
  }
  if (before != nullptr)
    reason +=
        fmt::format("; {} reach{} {:.0f} %", before->threads, before->threads == 1 ? "es" : "",
                    100 * before->read_rate.back().value / best);
  return fmt::format("decode   {} ({})\nprefill  {} (all usable {}: it is bound by multiplying)\n",
                     counted(decode, "thread"), reason,
                     counted(profile.prefill_threads(), "thread"),
                     profile.cores > 0 ? "cores" : "CPUs");
}

std::string notes(const MachineProfile& profile) {
  std::string text;
  if (!profile.memory_beyond_caches())
    text += fmt::format(
        "note: the largest set, {}, is under four times the last cache of {}: part of it may have "
        "been read\n      from there, so the memory rates are upper bounds\n",
        binary_size(profile.largest_set_bytes), binary_size(profile.caches.back().bytes));
  if (profile.measured_while_busy)
    text +=
        "note: other processes or guests used the CPUs meanwhile: rates may be low; ridge machine "
        "--refresh\n      measures again\n";
  return text;
}

}  // namespace

std::string machine_table(const MachineProfile& profile) {
  std::string text = fmt::format("cpu       {}, {} kernels\n", profile.cpu, name_of(profile.isa));
  text +=
      fmt::format("topology  {}, {}, {}, {}, {} of memory\n", counted(profile.packages, "package"),
                  counted(profile.cores, "core"), counted(profile.usable_cpus, "usable CPU"),
                  counted(profile.numa_nodes, "NUMA node"),
                  profile.memory_bytes > 0 ? binary_size(profile.memory_bytes) : "unknown size");
  text += fmt::format("caches    {}\nmeasured  {}\n\n", caches_line(profile), profile.date);
  text += rates_table(profile) + "\n" + curve_table(profile) + "\n" + choice_lines(profile);
  return text + notes(profile);
}

MachineProfile known_machine(Isa isa, bool refresh) {
  ProgressLine progress;
  std::string problem;
  MachineProfile profile = machine_profile(
      isa, refresh,
      [&](const std::string& what, double share) {
        progress.show("measuring this machine once (" + what + ")", share);
      },
      &problem);
  progress.clear();
  if (!problem.empty()) warning(problem);
  return profile;
}

Command add_machine_command(CLI::App& app) {
  struct Flags {
    bool refresh = false, json = false;
  };
  auto* sub =
      app.add_subcommand("machine", "Measure this machine: bandwidth, multiply peaks, caches.");
  sub->footer("Example: ridge machine --refresh");
  auto flags = std::make_shared<Flags>();
  sub->add_flag("--refresh", flags->refresh, "measure again instead of reading the cached result");
  sub->add_flag("--json", flags->json, "print one JSON object");
  return [flags] {
    const Result<Isa> isa = selected_isa();
    if (!isa) return fail(isa.error());
    const MachineProfile profile = known_machine(*isa, flags->refresh);
    put(stdout, fmt::format("{}", flags->json ? machine_json(profile) : machine_table(profile)));
    return kExitOk;
  };
}

}  // namespace ridge
