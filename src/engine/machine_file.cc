// The profile as JSON, and its cache file. A file is believed only if it is whole: anything odd in
// it means measuring again.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "engine/machine.h"

namespace ridge {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kFormatVersion = 2;
constexpr size_t kFileBytesMax = 1 << 20;

Json json_of(const ThreadRates& rates) {
  Json read = Json::array(), curve = Json::array();
  for (BytesPerSecond rate : rates.read_rate) read.push_back(rate.value);
  for (const ReadPoint& point : rates.read_curve)
    curve.push_back({{"bytes", point.bytes}, {"bytes_per_second", point.rate.value}});
  return {{"threads", rates.threads},
          {"read_bytes_per_second", read},
          {"cache_copy_bytes_per_second", rates.cache_copy_rate.value},
          {"memory_copy_bytes_per_second", rates.memory_copy_rate.value},
          {"fp32_flops_per_second", rates.fp32_rate.value},
          {"int8_ops_per_second", rates.int8_rate.value},
          {"read_curve", curve}};
}

Json json_of(const MachineProfile& profile) {
  Json caches = Json::array(), rates = Json::array();
  for (const CacheFacts& cache : profile.caches)
    caches.push_back(
        {{"level", cache.level}, {"bytes", cache.bytes}, {"instances", cache.instances}});
  for (const ThreadRates& entry : profile.rates) rates.push_back(json_of(entry));
  return {{"format", kFormatVersion},
          {"cpu", profile.cpu},
          {"isa", name_of(profile.isa)},
          {"usable_cpus", profile.usable_cpus},
          {"packages", profile.packages},
          {"cores", profile.cores},
          {"numa_nodes", profile.numa_nodes},
          {"memory_bytes", profile.memory_bytes},
          {"caches", caches},
          {"date", profile.date},
          {"measured_while_busy", profile.measured_while_busy},
          {"largest_set_bytes", profile.largest_set_bytes},
          {"memory_beyond_caches", profile.memory_beyond_caches()},
          {"decode_threads", profile.decode_threads()},
          {"prefill_threads", profile.prefill_threads()},
          {"rates", rates}};
}

ThreadRates rates_from(const Json& json) {
  ThreadRates rates;
  rates.threads = json.at("threads").get<int>();
  for (const Json& rate : json.at("read_bytes_per_second"))
    rates.read_rate.emplace_back(rate.get<double>());
  rates.cache_copy_rate = BytesPerSecond(json.at("cache_copy_bytes_per_second").get<double>());
  rates.memory_copy_rate = BytesPerSecond(json.at("memory_copy_bytes_per_second").get<double>());
  rates.fp32_rate = FlopsPerSecond(json.at("fp32_flops_per_second").get<double>());
  rates.int8_rate = FlopsPerSecond(json.at("int8_ops_per_second").get<double>());
  for (const Json& point : json.at("read_curve"))
    rates.read_curve.push_back({point.at("bytes").get<int64_t>(),
                                BytesPerSecond(point.at("bytes_per_second").get<double>())});
  return rates;
}

// May throw the library's exceptions.
MachineProfile profile_from(const Json& json, Isa isa) {
  MachineProfile profile;
  profile.cpu = json.at("cpu").get<std::string>();
  profile.isa = isa;
  profile.usable_cpus = json.at("usable_cpus").get<int>();
  profile.packages = json.at("packages").get<int>();
  profile.cores = json.at("cores").get<int>();
  profile.numa_nodes = json.at("numa_nodes").get<int>();
  profile.memory_bytes = json.at("memory_bytes").get<int64_t>();
  for (const Json& cache : json.at("caches"))
    profile.caches.push_back({cache.at("level").get<int>(), cache.at("bytes").get<int64_t>(),
                              cache.at("instances").get<int>()});
  for (const Json& entry : json.at("rates")) profile.rates.push_back(rates_from(entry));
  profile.date = json.at("date").get<std::string>();
  profile.measured_while_busy = json.at("measured_while_busy").get<bool>();
  profile.largest_set_bytes = json.at("largest_set_bytes").get<int64_t>();
  return profile;
}

bool sane(double rate) { return std::isfinite(rate) && rate > 0; }

bool sane(const ThreadRates& rates, size_t levels) {
  if (rates.read_rate.size() != levels) return false;
  for (BytesPerSecond rate : rates.read_rate) {
    if (!sane(rate.value)) return false;
  }
  int64_t before = 0;
  for (const ReadPoint& point : rates.read_curve) {
    if (point.bytes <= before || !sane(point.rate.value)) return false;
    before = point.bytes;
  }
  return sane(rates.cache_copy_rate.value) && sane(rates.memory_copy_rate.value) &&
         sane(rates.fp32_rate.value) && sane(rates.int8_rate.value);
}

// Whether every function of a profile can work with it.
bool sane(const MachineProfile& profile) {
  for (const CacheFacts& cache : profile.caches) {
    if (cache.level < 1 || cache.bytes <= 0 || cache.instances < 1) return false;
  }
  int before = 0;
  for (const ThreadRates& rates : profile.rates) {
    if (rates.threads <= before || !sane(rates, profile.caches.size() + 1)) return false;
    before = rates.threads;
  }
  return !profile.rates.empty() && profile.rates.front().threads == 1 &&
         before == profile.usable_cpus;
}

Error unusable(const std::string& path, const std::string& why) {
  return {ErrorCode::invalid_input, fmt::format("the machine profile {} {}", path, why)};
}

Result<MachineProfile> parsed(const std::string& path, const std::string& text, Isa isa) {
  try {
    const Json json = Json::parse(text);
    const int format = json.at("format").get<int>();
    if (format != kFormatVersion)
      return unusable(path, fmt::format("has format {}, expected {}", format, kFormatVersion));
    const auto found_isa = json.at("isa").get<std::string>();
    if (found_isa != name_of(isa))
      return unusable(path, fmt::format("is of {} kernels, expected {}", found_isa, name_of(isa)));
    const MachineProfile profile = profile_from(json, isa);
    if (profile.cpu != cpu_name())
      return unusable(path, fmt::format("is of \"{}\", this is \"{}\"", profile.cpu, cpu_name()));
    if (profile.usable_cpus != usable_cpus())
      return unusable(path, fmt::format("was measured with {} CPUs, now {} are usable",
                                        profile.usable_cpus, usable_cpus()));
    if (!sane(profile)) return unusable(path, "holds figures that cannot be");
    return profile;
  } catch (const nlohmann::json::exception& e) {
    return unusable(path, fmt::format("cannot be read as one: {}", e.what()));
  }
}

Result<std::string> path_to_use(Isa isa) {
  std::string path = machine_cache_path(isa);
  if (path.empty())
    return Error{
        ErrorCode::io,
        "no place for the machine profile: neither XDG_CACHE_HOME nor HOME is a full path"};
  return path;
}

// Written beside its place and renamed, so that no reader ever sees half of it.
Status write_whole(const std::string& path, const std::string& text) {
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  std::filesystem::create_directories(folder, error);
  if (error)
    return Error{ErrorCode::io,
                 fmt::format("cannot create {}: {}", folder.string(), error.message())};
  const std::string beside = fmt::format("{}.{}", path, getpid());
  {
    std::ofstream file(beside, std::ios::binary | std::ios::trunc);
    file << text;
    file.close();
    if (!file) {
      std::filesystem::remove(beside, error);
      return Error{ErrorCode::io, fmt::format("cannot write {}", beside)};
    }
  }
  std::filesystem::rename(beside, path, error);
  if (!error) return {};
  const std::string why = error.message();
  std::filesystem::remove(beside, error);
  return Error{ErrorCode::io, fmt::format("cannot rename {} to {}: {}", beside, path, why)};
}

}  // namespace

std::string machine_cache_path(Isa isa) {
  const auto full_path = [](const char* variable) -> std::string {
    const char* value = std::getenv(variable);
    return value != nullptr && value[0] == '/' ? value : "";  // XDG: others are to be ignored
  };
  std::string folder = full_path("XDG_CACHE_HOME");
  if (folder.empty()) {
    const std::string home = full_path("HOME");
    if (home.empty()) return "";
    folder = home + "/.cache";
  }
  return fmt::format("{}/ridge/machine-{}-{}cpus.json", folder, name_of(isa), usable_cpus());
}

std::string machine_json(const MachineProfile& profile) {
  // Only text of ours and the CPU's name: what is not UTF-8 in that is replaced.
  return json_of(profile).dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Result<MachineProfile> load_machine(Isa isa) {
  RIDGE_TRY(const std::string path, path_to_use(isa));
  std::error_code error;
  const auto bytes = std::filesystem::is_regular_file(path, error)
                         ? std::filesystem::file_size(path, error)
                         : std::uintmax_t{0};
  if (error || bytes == 0) return unusable(path, "does not exist");
  if (bytes > kFileBytesMax)
    return unusable(path, fmt::format("has {} bytes, expected at most {}", bytes, kFileBytesMax));
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file) return Error{ErrorCode::io, fmt::format("cannot read {}", path)};
  return parsed(path, text.str(), isa);
}

Status save_machine(const MachineProfile& profile) {
  RIDGE_TRY(const std::string path, path_to_use(profile.isa));
  return write_whole(path, machine_json(profile));
}

MachineProfile machine_profile(Isa isa, bool refresh, const ProbeProgress& progress,
                               std::string* warning) {
  if (!refresh) {
    if (auto loaded = load_machine(isa)) return std::move(loaded).value();
  }
  MachineProfile profile = measure_machine(isa, progress);
  if (const Status saved = save_machine(profile); !saved && warning != nullptr)
    *warning = saved.error().message + "; it will be measured again next time";
  return profile;
}

}  // namespace ridge
