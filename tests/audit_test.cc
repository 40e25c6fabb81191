// work_of held against an engine that counts what it does: op by op, to the byte. The second half
// plants errors in the description and expects the audit to see each.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <string>

#include "cost/work_of.h"
#include "kv/layout.h"
#include "program/lower.h"
#include "tests/audited_engine.h"
#include "tests/toy_specs.h"

namespace ridge {
namespace {

struct Case {
  std::string name;
  ModelSpec spec;
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

ModelSpec with_dtype(ModelSpec spec, DType weights, DType kv) {
  spec.default_weight_dtype = weights;
  spec.kv_dtype = kv;
  return spec;
}

std::vector<Case> cases() {
  std::vector<Case> cases;
  for (const ModelSpec& spec : toy_specs())
    for (const auto& [weights, kv] :
         {std::pair{DType::bf16, DType::f16}, {DType::q4_1, DType::f32}, {DType::q5_0, DType::f16}})
      cases.push_back(
          {spec.name + " " + std::string(name_of(weights)), with_dtype(spec, weights, kv)});
  for (const DType k : {DType::q3_k, DType::q6_k})
    cases.push_back(
        {"toy wide llama " + std::string(name_of(k)), with_dtype(toy_wide_llama(), k, DType::f16)});
  // As real files are: the table in one dtype, one matrix in another.
  ModelSpec mixed = with_dtype(toy_gemma3(), DType::q4_0, DType::f16);
  mixed.dtype_of_weight = {{"token_embd.weight", DType::q8_0},
                           {"blk.1.ffn_down.weight", DType::q5_1},
                           {"blk.2.attn_v.weight", DType::f16},
                           {"blk.0.attn_norm.weight", DType::f16}};
  cases.push_back({"toy gemma3 mixed", mixed});
  return cases;
}

// {new rows, cached, logit rows} per sequence. Caches end before, on and past gemma's window of 5.
std::vector<StepShape> shapes() {
  return {{{{1, 0, 1}}},
          {{{1, 4, 1}, {1, 17, 1}, {1, 5, 1}}},
          {{{7, 0, 1}}},
          {{{3, 3, 0}, {1, 11, 1}, {4, 2, 2}, {6, 9, 1}}},
          {{{5, 6, 0}}}};
}

Program lowered(const ModelSpec& spec, Sharding sharding = {}) {
  auto program = lower(spec, sharding);
  CHECK(program.has_value());
  return *std::move(program);
}

std::vector<int64_t> capacity_for(const StepShape& shape) {
  std::vector<int64_t> tokens;
  for (const SequenceShape& s : shape.sequences) tokens.push_back(s.cached + s.new_rows);
  return tokens;
}

// Distinct, out of order.
std::vector<int64_t> tokens_for(const StepShape& shape, int64_t vocab) {
  std::vector<int64_t> tokens;
  for (int64_t r = 0; r < shape.rows(); ++r) tokens.push_back((r * 37 + 5) % vocab);
  CHECK(std::set<int64_t>(tokens.begin(), tokens.end()).size() == tokens.size());
  return tokens;
}

using Description = std::function<Work(const Op&, const StepShape&)>;

Work described(const Op& op, const StepShape& shape) { return work_of(op, shape); }

std::string text_of(const Work& w) {
  std::string text;
  for (const double n :
       {w.matmul_flops.value, w.attention_flops.value, w.weight_bytes.value, w.kv_read_bytes.value,
        w.kv_write_bytes.value, w.activation_bytes.value, w.wire_bytes.value})
    text += std::to_string(static_cast<int64_t>(n)) + " ";
  return text;
}

// Runs the whole step; the ops for which `description` says something else than what was counted.
std::vector<std::string> disagreements(const Program& program, const StepShape& shape,
                                       int64_t vocab, const Description& description) {
  AuditedEngine engine(program, capacity_for(shape));
  engine.begin_step(shape, tokens_for(shape, vocab));
  std::vector<std::string> found;
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const Op& op = program.ops[i];
    const Work counted = engine.execute(op), claimed = description(op, shape);
    if (!(counted == claimed))
      found.push_back("op " + std::to_string(i) + " " + op.stage + ": counted " + text_of(counted) +
                      "described " + text_of(claimed));
  }
  return found;
}

class AuditOf : public testing::TestWithParam<Case> {};

TEST_P(AuditOf, every_op_does_exactly_the_work_that_is_described) {
  const ModelSpec& spec = GetParam().spec;
  const Program plain = lowered(spec);
  for (const Program& program : {plain, fuse(plain)})
    for (const StepShape& shape : shapes())
      EXPECT_EQ(disagreements(program, shape, spec.vocab_size, described),
                std::vector<std::string>());
}

INSTANTIATE_TEST_SUITE_P(Audit, AuditOf, testing::ValuesIn(cases()), [](const auto& info) {
  std::string name = info.param.name;
  for (char& c : name)
    if (c == ' ') c = '_';
  return name;
});

TEST(Audit, one_rank_of_two_does_exactly_the_work_that_is_described) {
  for (const ModelSpec& spec : {toy_llama(), toy_qwen2(), toy_gemma3()}) {
    const Program plain = lowered(spec, {.tensor_parallel = 2});
    for (const Program& program : {plain, fuse(plain)})
      EXPECT_EQ(disagreements(program, shapes()[3], spec.vocab_size, described),
                std::vector<std::string>());
  }
}

TEST(Audit, toy_specs_have_no_two_equal_dimensions) {
  std::vector<ModelSpec> specs = toy_specs();
  specs.push_back(toy_wide_llama());
  for (const ModelSpec& spec : specs) {
    const std::vector<int64_t> dimensions = every_dimension(spec);
    EXPECT_EQ(std::set<int64_t>(dimensions.begin(), dimensions.end()).size(), dimensions.size())
        << spec.name;
  }
}

// The audited engine is only a witness if it computes the model.
std::vector<float> last_logits(const Program& program, const std::vector<StepShape>& steps) {
  AuditedEngine engine(program, {12});
  int64_t next = 0;
  for (const StepShape& step : steps) {
    std::vector<int64_t> tokens;
    for (int64_t r = 0; r < step.rows(); ++r) tokens.push_back(next++ * 7 % 100);
    engine.begin_step(step, tokens);
    for (const Op& op : program.ops) engine.execute(op);
  }
  std::vector<float> logits;
  for (int64_t i = 0; i < engine.width(Buffer::logits); ++i)
    logits.push_back(engine.value(Buffer::logits, i));
  return logits;
}

TEST(Audit, fused_and_plain_programs_compute_the_same_logits) {
  for (const ModelSpec& spec : toy_specs()) {
    const Program plain = lowered(spec);
    const std::vector<StepShape> step{{{{12, 0, 1}}}};
    EXPECT_EQ(last_logits(plain, step), last_logits(fuse(plain), step)) << spec.name;
  }
}

TEST(Audit, chunks_and_single_tokens_compute_the_same_logits_as_one_pass) {
  for (const ModelSpec& spec : toy_specs()) {
    const Program program = lowered(spec);
    const auto whole = last_logits(program, {{{{12, 0, 1}}}});
    EXPECT_EQ(last_logits(program, {{{{5, 0, 0}}}, {{{3, 5, 1}}}, {{{4, 8, 1}}}}), whole)
        << spec.name;
    std::vector<StepShape> one_by_one;
    for (int64_t t = 0; t < 12; ++t) one_by_one.push_back({{{1, t, 1}}});
    EXPECT_EQ(last_logits(program, one_by_one), whole) << spec.name;
  }
}

// ---- planted errors ------------------------------------------------------------------

// An error in the description: what one would get from `work_of` if it, or the lowering, were
// wrong.
struct Mutation {
  const char* name;
  std::function<void(Op&, StepShape&)> input = nullptr;  // describe another op or step
  std::function<void(Work&, const Op&, const StepShape&)> output = nullptr;  // or count wrongly
};

template <class Body, class Change>
auto change(Change&& apply) {
  return [apply](Op& op, StepShape&) {
    const auto on = [&](Op& part) {
      if (auto* body = std::get_if<Body>(&part.body)) apply(*body);
    };
    on(op);
    if (auto* fused = std::get_if<Fused>(&op.body))
      for (Op& part : fused->parts) on(part);
  };
}

constexpr int64_t kQWidth = 192, kDModel = 96;  // of toy llama and toy gemma3

std::vector<Mutation> wrong_widths() {
  return {
      {"attn_output assumes heads * head_dim == d_model", change<MatMul>([](MatMul& m) {
         if (m.weight.cols == kQWidth) m.weight.cols = kDModel;
       })},
      {"attn_q assumes heads * head_dim == d_model", change<MatMul>([](MatMul& m) {
         if (m.weight.rows == kQWidth) m.weight.rows = kDModel;
       })},
      {"cache counted for query heads",
       change<Attention>([](Attention& a) { a.kv_heads = a.heads; })},
      {"the cache's dtype is mistaken",
       change<Attention>([](Attention& a) { a.kv_dtype = DType::f32; })},
      {"Q4_1 counted as Q4_0", change<MatMul>([](MatMul& m) {
         if (m.weight.dtype == DType::q4_1) m.weight.dtype = DType::q4_0;
       })},
      {"RoPE turns the whole head", change<Rope>([](Rope& r) { r.rope.dims = r.head_dim; })},
      {"RoPE's divisors are not read", change<Rope>([](Rope& r) { r.use_freqs = false; })},
      {"the bias is not read", change<MatMul>([](MatMul& m) { m.has_bias = false; })},
      {"a norm over heads is taken for one over the row",
       change<RmsNorm>([](RmsNorm& n) { n.gain.cols *= n.groups, n.groups = 1; })},
      {"the gate's width is d_model", change<GatedAct>([](GatedAct& g) { g.width = kDModel; })}};
}

std::vector<Mutation> wrong_rules() {
  return {
      {"the window is ignored", change<Attention>([](Attention& a) { a.window = 0; })},
      {"the window is one too long", change<Attention>([](Attention& a) {
         if (a.window > 0) ++a.window;
       })},
      {"logits counted for all rows", change<MatMul>([](MatMul& m) { m.logit_rows_only = false; })},
      {"adding to a buffer does not read it",
       change<MatMul>([](MatMul& m) { m.accumulate = false; })},
      {"a norm that adds does not read what it adds to",
       change<RmsNorm>([](RmsNorm& n) { n.accumulate = false; })},
      {"what stays on the chip is counted", change<Fused>([](Fused& f) { f.internal.clear(); })},
      {"the cache's length is off by one",
       [](Op&, StepShape& shape) {
         for (SequenceShape& s : shape.sequences) s.cached = std::max<int64_t>(0, s.cached - 1);
       }},
      {"a batch is padded to its longest sequence",
       [](Op&, StepShape& shape) {
         int64_t longest = 0;
         for (const SequenceShape& s : shape.sequences) longest = std::max(longest, s.cached);
         for (SequenceShape& s : shape.sequences) s.cached = longest;
       }},
      {"a prompt is counted as one row", [](Op&, StepShape& shape) {
         for (SequenceShape& s : shape.sequences) s.new_rows = 1;
       }}};
}

std::vector<Mutation> wrong_counts() {
  return {{"the new tokens' cache writes are missing", nullptr,
           [](Work& w, const Op&, const StepShape&) { w.kv_write_bytes = Bytes(0); }},
          {"a step does not read its own tokens back", nullptr,
           [](Work& w, const Op&, const StepShape&) { w.kv_read_bytes -= w.kv_write_bytes; }},
          {"a multiply-add is one FLOP", nullptr,
           [](Work& w, const Op&, const StepShape&) { w.matmul_flops = w.matmul_flops / 2; }},
          {"attention's FLOPs ignore the causal mask", nullptr,
           [](Work& w, const Op& op, const StepShape& shape) {
             const auto* a = std::get_if<Attention>(&op.body);
             if (a == nullptr) return;
             int64_t pairs = 0;
             for (const SequenceShape& s : shape.sequences)
               pairs += s.new_rows * (s.cached + s.new_rows);
             w.attention_flops = Flops(4.0 * static_cast<double>(pairs * a->heads * a->head_dim));
           }},
          {"the embedding reads its whole table", nullptr,
           [](Work& w, const Op& op, const StepShape&) {
             if (const auto* e = std::get_if<Embed>(&op.body))
               w.weight_bytes = Bytes(static_cast<double>(e->table.bytes()));
           }},
          {"each part of a fused op reads the shared input", nullptr,
           [](Work& w, const Op& op, const StepShape& shape) {
             const auto* fused = std::get_if<Fused>(&op.body);
             if (fused == nullptr) return;
             w.activation_bytes = Bytes(0);
             for (const Op& part : fused->parts)
               w.activation_bytes += work_of(part, shape).activation_bytes;
           }},
          {"attention does not read the new k and v", nullptr,
           [](Work& w, const Op& op, const StepShape& shape) {
             if (const auto* a = std::get_if<Attention>(&op.body))
               w.activation_bytes -= Bytes(static_cast<double>(2 * shape.rows() * a->kv_heads *
                                                               a->head_dim * kActivationBytes));
           }},
          {"the weights are re-read for every row", nullptr,
           [](Work& w, const Op& op, const StepShape& shape) {
             if (std::holds_alternative<MatMul>(op.body))
               w.weight_bytes = w.weight_bytes * static_cast<double>(shape.rows());
           }}};
}

bool is_caught(const Mutation& mutation) {
  const auto mutant = [&](const Op& op, const StepShape& shape) {
    Op other = op;
    StepShape other_shape = shape;
    if (mutation.input) mutation.input(other, other_shape);
    Work work = work_of(other, other_shape);
    if (mutation.output) mutation.output(work, op, shape);
    return work;
  };
  for (ModelSpec spec : {toy_llama(), toy_qwen2(), toy_qwen3(), toy_gemma3()}) {
    spec.default_weight_dtype = DType::q4_1;
    const Program plain = lowered(spec);
    for (const Program& program : {plain, fuse(plain)})
      if (!disagreements(program, shapes()[3], spec.vocab_size, mutant).empty()) return true;
  }
  return false;
}

TEST(Audit, planted_errors_in_widths_and_dtypes_are_caught) {
  for (const Mutation& m : wrong_widths()) EXPECT_TRUE(is_caught(m)) << m.name;
}

TEST(Audit, planted_errors_in_what_a_step_touches_are_caught) {
  for (const Mutation& m : wrong_rules()) EXPECT_TRUE(is_caught(m)) << m.name;
}

TEST(Audit, planted_errors_in_counting_are_caught) {
  for (const Mutation& m : wrong_counts()) EXPECT_TRUE(is_caught(m)) << m.name;
}

TEST(Audit, a_description_that_is_right_is_not_accused) {
  EXPECT_FALSE(is_caught({"nothing is wrong", [](Op&, StepShape&) {}}));
}

}  // namespace
}  // namespace ridge
