// ridge inspect: what a model file holds, without loading its weights.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/terminal.h"
#include "cost/work_of.h"
#include "engine/model.h"
#include "engine/tokenizer_from_gguf.h"
#include "kv/layout.h"
#include "program/print.h"
#include "text/utf8_stream.h"

namespace ridge {

namespace {

using Json = nlohmann::ordered_json;

struct InspectFlags {
  std::string model, pre;
  bool program = false, json = false;
  int64_t batch = 1, context = 1;
};

std::string rope_text(const RopeSpec& rope) {
  const char* scaling = rope.scaling == RopeScaling::none     ? "none"
                        : rope.scaling == RopeScaling::linear ? "linear"
                                                              : "llama3";
  return fmt::format("base {}, {} dims, {} pairs, scaling {}{}", rope.base, rope.dims,
                     rope.pairing == RopePairing::adjacent ? "adjacent" : "half-split", scaling,
                     rope.scaling == RopeScaling::linear ? fmt::format(" {}", rope.factor) : "");
}

Json spec_json(const ModelFacts& facts) {
  const ModelSpec& s = facts.spec;
  Json json{{"name", to_valid_utf8(s.name)},
            {"architecture", name_of(s.architecture)},
            {"parameters", parameters_of(facts.program)},
            {"n_layers", s.n_layers},
            {"d_model", s.d_model},
            {"n_heads", s.n_heads},
            {"n_kv_heads", s.n_kv_heads},
            {"head_dim", s.head_dim},
            {"d_ff", s.d_ff},
            {"vocab_size", s.vocab_size},
            {"context_length", s.context_length},
            {"tied_embedding", s.tied_embedding},
            {"norm_epsilon", s.norm_epsilon},
            {"rope", rope_text(s.rope)}};
  if (s.sliding_window > 0) {
    json["sliding_window"] = s.sliding_window;
    json["windowed_layers"] = std::count(s.windowed.begin(), s.windowed.end(), true);
    json["rope_local"] = rope_text(s.rope_local);
  }
  json["kv_bytes_per_token"] = kv_bytes_per_token(s);
  return json;
}

Json tokenizer_json(const GgufFile& file, const std::string& pre) {
  const auto tokenizer = tokenizer_from_gguf(file, pre);
  if (!tokenizer) return {{"error", tokenizer.error().message}};
  const TokenizerSpec& s = (*tokenizer)->spec();
  return {{"model", s.model == TokenizerModel::bpe ? "bpe" : "spm"},
          {"pre", s.pre},
          {"vocab_size", s.tokens.size()},
          {"merges", s.merges.size()},
          {"bos", s.bos},
          {"eos", s.eos},
          {"add_bos", s.add_bos},
          {"add_eos", s.add_eos},
          {"chat_template", file.has("tokenizer.chat_template")}};
}

Json work_json(const Work& w) {
  return {{"flops", w.flops().value},
          {"weight_bytes", w.weight_bytes.value},
          {"kv_read_bytes", w.kv_read_bytes.value},
          {"kv_write_bytes", w.kv_write_bytes.value},
          {"activation_bytes", w.activation_bytes.value}};
}

Json tensors_json(const GgufFile& file) {
  Json tensors = Json::array();
  for (const GgufTensor& t : file.tensors())
    tensors.push_back({{"name", to_valid_utf8(t.name)},
                       {"dtype", name_of(t.view.dtype)},
                       {"shape", t.shape},
                       {"bytes", t.view.bytes()}});
  return tensors;
}

Json program_json(const Program& program, const StepShape& shape) {
  Json ops = Json::array();
  for (const Op& op : program.ops)
    ops.push_back(
        {{"stage", op.stage}, {"op", describe(op)}, {"work", work_json(work_of(op, shape))}});
  return ops;
}

std::string text_of(const Json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

void print_section(const char* title, const Json& object) {
  put(stdout, fmt::format("{}\n", title));
  for (const auto& [key, value] : object.items())
    put(stdout, fmt::format("  {:<20} {}\n", key, text_of(value)));
}

void print_program(const Program& program, const StepShape& shape, const InspectFlags& flags) {
  put(stdout, fmt::format("program: one decode step of {} sequence(s) with {} tokens each\n",
                          flags.batch, flags.context));
  const auto row = [](const std::string& what, const Work& w) {
    put(stdout,
        fmt::format("{:>10.4f}{:>12.5f}{:>11.5f}{:>11.5f}  {}\n", w.flops().value * 1e-9,
                    w.weight_bytes.value * 1e-6, (w.kv_read_bytes + w.kv_write_bytes).value * 1e-6,
                    w.activation_bytes.value * 1e-6, what));
  };
  put(stdout,
      fmt::format("{:>10}{:>12}{:>11}{:>11}  op\n", "GFLOP", "weight MB", "KV MB", "act MB"));
  for (const Op& op : program.ops) row(describe(op), work_of(op, shape));
  row("total", work_of(program, shape));
}

Result<int> inspect(const InspectFlags& flags) {
  RIDGE_TRY(const GgufFile file, GgufFile::open(flags.model));
  RIDGE_TRY(const ModelFacts facts, model_facts(file));
  const StepShape shape = decode_shape(flags.batch, flags.context);
  const Program fused = fuse(facts.program);
  if (flags.json) {
    Json json{{"file", to_valid_utf8(flags.model)},
              {"file_bytes", file.file_bytes()},
              {"spec", spec_json(facts)},
              {"tokenizer", tokenizer_json(file, flags.pre)}};
    if (flags.program)
      json["program"] = program_json(fused, shape);
    else
      json["tensors"] = tensors_json(file);
    put(stdout, fmt::format("{}\n", json.dump(2)));
    return kExitOk;
  }
  print_section("model", spec_json(facts));
  print_section("tokenizer", tokenizer_json(file, flags.pre));
  if (flags.program) {
    print_program(fused, shape, flags);
    return kExitOk;
  }
  put(stdout, "tensors\n");
  int64_t bytes = 0;
  for (const GgufTensor& t : file.tensors()) {
    put(stdout,
        fmt::format("  {:<36}{:<6}{:>20}{:>14}\n", to_valid_utf8(t.name), name_of(t.view.dtype),
                    fmt::format("{}", fmt::join(t.shape, " x ")), t.view.bytes()));
    bytes += t.view.bytes();
  }
  put(stdout, fmt::format("  {} tensors, {} bytes\n", file.tensors().size(), bytes));
  return kExitOk;
}

}  // namespace

Command add_inspect_command(CLI::App& app) {
  auto* sub = app.add_subcommand("inspect", "Show a model's spec, tokenizer, tensors or Program.");
  sub->footer("Example: ridge inspect model.gguf --program --batch 8 --context 4096");
  auto flags = std::make_shared<InspectFlags>();
  sub->add_option("MODEL", flags->model, "GGUF file")->required();
  sub->add_flag("--program", flags->program, "the decode step as data, with its work per op");
  sub->add_option("--batch", flags->batch, "sequences of that step")
      ->check(CLI::Range(1, 1 << 16))
      ->capture_default_str();
  sub->add_option("--context", flags->context, "tokens of each, the new one included")
      ->check(CLI::Range(1, 1 << 24))
      ->capture_default_str();
  sub->add_option("--pre", flags->pre, "pre-tokeniser, if the file names none that is known");
  sub->add_flag("--json", flags->json, "print one JSON object");
  return [flags] {
    const Result<int> code = inspect(*flags);
    return code ? *code : fail(code.error());
  };
}

}  // namespace ridge
