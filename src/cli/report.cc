// SPDX-License-Identifier: Apache-2.0
#include "cli/report.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/terminal.h"
#include "text/utf8_stream.h"

namespace ridge {

namespace {

using Json = nlohmann::ordered_json;

constexpr double kMega = 1e-6, kGiga = 1e-9;

std::string percent(double share) { return fmt::format("{:.1f} %", share * 100); }

double per_step(const PhaseTotals& t, double total) { return total / static_cast<double>(t.steps); }

std::string phase_row(Phase phase, const PhaseTotals& t) {
  const bool is_decode = phase == Phase::decode;
  return fmt::format(
      "{:<8}{:>8}{:>11.1f}{:>10.1f}{:>10.2f}{:>10.2f}{:>9.1f}{:>9.1f}  {} {}\n", name_of(phase),
      t.rows, milliseconds(t.wall), static_cast<double>(t.rows) / t.wall.value,
      per_step(t, milliseconds(t.wall)), per_step(t, milliseconds(t.floor.seconds)),
      (t.work.streamed_bytes() / t.wall).value * kGiga, (t.work.flops() / t.wall).value * kGiga,
      is_decode ? "MBU " + percent(t.mbu()) : "MFU " + percent(t.mfu()),
      fmt::format("({} roof)", name_of(t.floor.roof)));
}

std::string bytes_row(Phase phase, const PhaseTotals& t) {
  const auto mb = [&](Bytes b) { return per_step(t, b.value) * kMega; };
  return fmt::format("{:<8}{:>8}{:>12.3f}{:>12.3f}{:>12.3f}{:>14.3f}{:>14.3f}\n", name_of(phase),
                     t.steps, mb(t.work.weight_bytes), mb(t.work.kv_read_bytes),
                     mb(t.work.kv_write_bytes), mb(t.work.activation_bytes),
                     per_step(t, t.work.flops().value) * kGiga);
}

std::string buckets(const PhaseTotals& t) {
  const double step = per_step(t, milliseconds(t.wall));
  const auto row = [&](const char* what, Seconds s) {
    const double ms = per_step(t, milliseconds(s));
    return fmt::format("  {:<52}{:>9.3f} ms{:>8.1f} %\n", what, ms, 100 * ms / step);
  };
  return fmt::format("decode step {:.3f} ms =\n", step) +
         row("floor of the weights alone", t.floor_without_kv) +
         row("(1) KV reads, growing with the context", t.kv_reads()) +
         row("(2) inside kernels, below the measured ceilings", t.kernels_above_floor()) +
         row("(3) outside kernels: sampling, text, barriers", t.outside_kernels());
}

std::string where_the_bytes_live(const PhaseTotals& t, const Device& device) {
  std::string caches;
  for (size_t i = 0; i + 1 < device.levels.size(); ++i)
    caches += fmt::format("{}{} {:.1f} MB", i == 0 ? "" : ", ", device.levels[i].name,
                          device.levels[i].capacity.value * kMega);
  return fmt::format(
      "A decode step sweeps {:.1f} MB (weights and KV); caches: {}. A set of that size, read again "
      "and again,\ncomes from {} at {:.1f} GB/s here: the peak of MBU.\n",
      t.max_recurring.value * kMega, caches, t.home_name, t.home_rate.value * kGiga);
}

std::string profile_rows(const Book& book, Phase phase) {
  const PhaseTotals& t = book.phase(phase);
  std::string out = fmt::format("{:<16}{:>8}{:>12}{:>12}{:>9}{:>12}{:>9}{:>10}  roof\n",
                                fmt::format("{} op", name_of(phase)), "per step", "us/step",
                                "floor us", "x floor", "MB/step", "GB/s", "GFLOP/s");
  for (const StageRow& r : book.stages(phase)) {
    if (r.seconds.value <= 0) continue;
    const Bytes bytes = r.work.streamed_bytes();
    out += fmt::format("{:<16}{:>8}{:>12.1f}{:>12.1f}{:>9.2f}{:>12.3f}{:>9.1f}{:>10.1f}  {}\n",
                       r.stage, r.ops_per_step, per_step(t, microseconds(r.seconds)),
                       per_step(t, microseconds(r.floor.seconds)), r.seconds / r.floor.seconds,
                       per_step(t, bytes.value) * kMega, (bytes / r.seconds).value * kGiga,
                       (r.work.flops() / r.seconds).value * kGiga, name_of(r.floor.roof));
  }
  return out;
}

Json phase_json(const PhaseTotals& t) {
  if (t.steps == 0) {
    Json empty{{"tokens", 0}};
    for (const char* key : {"ms", "tok_s", "weight_bytes_per_step", "kv_bytes_per_step", "step_ms",
                            "floor_ms", "mbu", "mfu"})
      empty[key] = nullptr;
    return empty;
  }
  const Bytes kv = t.work.kv_read_bytes + t.work.kv_write_bytes;
  return {{"tokens", t.rows},
          {"ms", milliseconds(t.wall)},
          {"tok_s", static_cast<double>(t.rows) / t.wall.value},
          {"steps", t.steps},
          {"weight_bytes_per_step", per_step(t, t.work.weight_bytes.value)},
          {"kv_bytes_per_step", per_step(t, kv.value)},
          {"activation_bytes_per_step", per_step(t, t.work.activation_bytes.value)},
          {"flops_per_step", per_step(t, t.work.flops().value)},
          {"step_ms", per_step(t, milliseconds(t.wall))},
          {"kernels_ms", per_step(t, milliseconds(t.kernels))},
          {"floor_ms", per_step(t, milliseconds(t.floor.seconds))},
          {"roof", name_of(t.floor.roof)},
          {"mbu", t.mbu()},
          {"mbu_peak_gbps", t.home_rate.value * kGiga},
          {"mbu_peak_level", t.home_name},
          {"mfu", t.mfu()}};
}

Json profile_json(const Book& book, Phase phase) {
  Json rows = Json::array();
  const PhaseTotals& t = book.phase(phase);
  for (const StageRow& r : book.stages(phase))
    rows.push_back({{"stage", r.stage},
                    {"ops_per_step", r.ops_per_step},
                    {"us_per_step", per_step(t, microseconds(r.seconds))},
                    {"floor_us_per_step", per_step(t, microseconds(r.floor.seconds))},
                    {"streamed_bytes_per_step", per_step(t, r.work.streamed_bytes().value)},
                    {"flops_per_step", per_step(t, r.work.flops().value)}});
  return rows;
}

}  // namespace

std::string run_table(const Workbench& bench, const RunFlags& flags, const Generation& generation) {
  const PhaseTotals& prefill = bench.book->phase(Phase::prefill);
  const PhaseTotals& decode = bench.book->phase(Phase::decode);
  if (prefill.steps == 0) return "nothing has run yet\n";
  std::string out =
      fmt::format("\n{:<8}{:>8}{:>11}{:>10}{:>10}{:>10}{:>9}{:>9}  of the peak\n", "phase",
                  "tokens", "time ms", "tok/s", "ms/step", "floor ms", "GB/s", "GFLOP/s");
  out += phase_row(Phase::prefill, prefill);
  if (decode.steps > 0) out += phase_row(Phase::decode, decode);
  out += fmt::format("\n{:<8}{:>8}{:>12}{:>12}{:>12}{:>14}{:>14}\n", "a step", "steps",
                     "weights MB", "KV read MB", "KV write MB", "activation MB", "GFLOP");
  out += bytes_row(Phase::prefill, prefill);
  if (decode.steps > 0) out += bytes_row(Phase::decode, decode) + "\n" + buckets(decode);
  out += generation.tokens.empty()
             ? "\nNo token was generated.\n"
             : fmt::format(
                   "\nTTFT {:.1f} ms: time to the first token, the whole prompt's prefill "
                   "and one sampling.\n",
                   milliseconds(generation.ttft));
  if (decode.steps > 0) {
    out +=
        fmt::format("TPOT {:.2f} ms: time per output token after the first, a mean decode step.\n",
                    per_step(decode, milliseconds(decode.wall)));
    out += where_the_bytes_live(decode, bench.decode_device);
  }
  out += fmt::format(
      "MBU = bytes a step must read / (its time x that bandwidth); MFU = FLOPs / (time "
      "x {:.0f} GFLOP/s {}).\nPeaks: {}; finish: {}.\n",
      bench.prefill_device.matmul_rate.value * kGiga, bench.prefill_device.matmul_arithmetic,
      bench.decode_device.source, name_of(generation.reason));
  if (flags.verbose)
    out += fmt::format("Hash of the logits of these {} tokens: {:016x}\n", generation.tokens.size(),
                       generation.logits_hash);
  if (flags.profile) {
    out += "\n" + profile_rows(*bench.book, Phase::prefill);
    if (decode.steps > 0) out += "\n" + profile_rows(*bench.book, Phase::decode);
  }
  return out;
}

std::string run_json(const Workbench& bench, const RunFlags& flags, size_t prompt_tokens,
                     const Generation& generation) {
  Json json{{"model", to_valid_utf8(flags.model)},
            {"text", generation.text},
            {"tokens", generation.tokens},
            {"finish_reason", name_of(generation.reason)},
            {"prompt_tokens", prompt_tokens},
            {"ttft_ms", nullptr},
            {"load_ms", milliseconds(bench.load_time)},
            {"seed", flags.sampling.seed},
            {"threads", {{"prefill", bench.prefill_threads}, {"decode", bench.decode_threads}}},
            {"isa", name_of(bench.isa)},
            {"prefill", phase_json(bench.book->phase(Phase::prefill))},
            {"decode", phase_json(bench.book->phase(Phase::decode))}};
  if (!generation.tokens.empty()) json["ttft_ms"] = milliseconds(generation.ttft);
  if (flags.verbose) json["logits_hash"] = fmt::format("{:016x}", generation.logits_hash);
  if (flags.profile) {
    json["prefill"]["ops"] = profile_json(*bench.book, Phase::prefill);
    json["decode"]["ops"] = profile_json(*bench.book, Phase::decode);
  }
  return json.dump(2);
}

void hold_the_law(Workbench& bench, const RunFlags& flags) {
  const std::vector<BeatenFloor> beaten = bench.book->beaten_floors();
  if (beaten.empty() || bench.measured_again) return;
  bench.measured_again = true;  // once a process: a chat must not stop for it after every answer
  const BeatenFloor& first = beaten.front();
  warning(
      fmt::format("{} {} took {:.3f} ms where the measured ceilings allow {:.3f} ms at best: "
                  "they were measured too low; measuring them again",
                  name_of(first.phase), first.stage.empty() ? "as a whole" : first.stage,
                  milliseconds(first.measured), milliseconds(first.floor)));
  bench.machine = merge_best(bench.machine, measure_machine(bench.isa));
  if (const Status saved = save_machine(bench.machine); !saved) warning(saved.error().message);
  bench.prefill_device = device_of(bench.machine, bench.prefill_threads, flags.exact);
  bench.decode_device = device_of(bench.machine, bench.decode_threads, flags.exact);
  bench.book->reprice(bench.prefill_device, bench.decode_device);
  if (bench.book->beats_floor())
    warning("the new ceilings are still too low for this run; its shares over 100 % are not real");
}

Status save_conversation(const std::string& path, const RunFlags& flags,
                         const std::vector<ChatMessage>& messages) {
  Json json{{"model", to_valid_utf8(flags.model)}, {"messages", Json::array()}};
  for (const ChatMessage& m : messages)
    json["messages"].push_back({{"role", m.role}, {"content", m.content}});
  std::ofstream file(path);
  file << json.dump(2) << '\n';
  file.close();
  if (!file)
    return Error{ErrorCode::io, fmt::format("cannot write '{}': {}", path, std::strerror(errno))};
  return {};
}

}  // namespace ridge
