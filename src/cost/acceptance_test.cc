// Published decode physics of dense models, reproduced through lower, work_of and the floor. The
// ids name the worked examples; models by their config.json, the device by its datasheet.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>

#include "base/check.h"
#include "cost/floor.h"
#include "cost/work_of.h"
#include "kv/layout.h"
#include "program/lower.h"

namespace ridge {
namespace {

ModelSpec bf16_llama(int64_t layers, int64_t d_model, int64_t heads, int64_t d_ff) {
  ModelSpec spec{.architecture = Architecture::llama};
  spec.n_layers = layers, spec.d_model = d_model, spec.n_heads = heads, spec.n_kv_heads = 8;
  spec.head_dim = 128, spec.d_ff = d_ff, spec.vocab_size = 128256;
  spec.rope.dims = spec.head_dim;
  spec.default_weight_dtype = spec.default_vector_dtype = spec.kv_dtype = DType::bf16;
  return spec;
}
ModelSpec llama_8b() { return bf16_llama(32, 4096, 32, 14336); }
ModelSpec llama_70b() { return bf16_llama(80, 8192, 64, 28672); }

// NVIDIA H100 SXM datasheet: 3.35 TB/s, 989 TFLOP/s dense bf16, NVLink 450 GB/s one way.
Device h100() {
  return {.name = "H100 SXM",
          .levels = {{"memory", Bytes(80e9), BytesPerSecond(3.35e12)}},
          .matmul_rate = FlopsPerSecond(989e12),
          .attention_rate = FlopsPerSecond(989e12),
          .wire_rate = BytesPerSecond(450e9),
          .matmul_arithmetic = "bf16",
          .source = "datasheet"};
}
constexpr BytesPerSecond kH100Rate(3.35e12);

Program lowered(const ModelSpec& spec, int64_t ranks = 1) {
  auto program = lower(spec, {.tensor_parallel = ranks});
  CHECK(program.has_value());
  return *std::move(program);
}

Work decode_work(const ModelSpec& spec, int64_t batch, int64_t context, int64_t ranks = 1) {
  return work_of(lowered(spec, ranks), decode_shape(batch, context));
}

Seconds read_time(const Work& work) { return (work.weight_bytes + work.kv_read_bytes) / kH100Rate; }

void expect_near(double got, double want, double relative) {
  EXPECT_NEAR(got, want, std::abs(want) * relative);
}

TEST(Acceptance, weight_bytes_and_floor_of_llama_8b) {
  EXPECT_EQ(parameters_of(lowered(llama_8b())), 8030261248);  // Q01.total_params
  const Work work = decode_work(llama_8b(), 1, 1);
  EXPECT_EQ(work.weight_bytes, Bytes(15009857536));  // Q01.weight_bytes
  expect_near(milliseconds(read_floor(h100(), work.weight_bytes, work.weight_bytes)), 4.480554488,
              1e-9);  // Q01.floor_ms
  // The whole floor also holds what weights do not: norms and gates are bound by activations.
  for (const Program& program : {lowered(llama_8b()), fuse(lowered(llama_8b()))}) {
    const Floor floor = floor_seconds(program, decode_shape(1, 1), h100());
    EXPECT_GE(milliseconds(floor.seconds), 4.480554488);
    expect_near(milliseconds(floor.seconds), 4.480554488, 1e-3);  // Q01.floor_ms
    EXPECT_EQ(floor.roof, Roof::memory);
  }
}

TEST(Acceptance, cache_bytes_per_token) {
  EXPECT_EQ(kv_bytes_per_token(llama_8b()), 131072);  // Q1, worked
  EXPECT_EQ(kv_bytes_per_token(llama_70b()), 327680);
  EXPECT_EQ(decode_work(llama_8b(), 1, 1000).kv_read_bytes, Bytes(131072.0 * 1000));
  EXPECT_EQ(decode_work(llama_8b(), 3, 1000).kv_write_bytes, Bytes(131072.0 * 3));
  EXPECT_EQ(decode_work(llama_8b(), 8, 4096).kv_read_bytes, Bytes(4294967296));  // Q37.bytes
  EXPECT_EQ(16 * kv_bytes_per_token_and_layer(DType::bf16, 8, 128), 65536);      // Q17.page_bytes
}

TEST(Acceptance, step_times_of_llama_8b_with_context) {
  const auto at_90_percent = [](int64_t context) {
    return milliseconds(read_time(decode_work(llama_8b(), 1, context))) / 0.9;
  };
  expect_near(at_90_percent(8192) + 0.35, 5.684527151, 1e-3);  // Q01.step_8k_ms
  expect_near(at_90_percent(1), 4.978393876, 1e-3);            // Q12.expected_ms
  expect_near(at_90_percent(30000), 6.282590164, 1e-3);        // Q36.tpot_ms
}

TEST(Acceptance, flops_of_llama_8b) {
  const Work work = decode_work(llama_8b(), 1, 1000);
  EXPECT_EQ(work.matmul_flops / Flops(2), 7504658432);                          // Q02.matmul_params
  EXPECT_EQ(work.attention_flops, Flops(524288.0 * 1000));                      // Q2, worked
  expect_near(work.matmul_flops / (work.attention_flops / 1000), 28628, 1e-3);  // Q02.ctx_100pct_8b
}

TEST(Acceptance, intensities) {
  const Work of_70b = decode_work(llama_70b(), 4, 4096);
  EXPECT_EQ(of_70b.attention_flops.value / of_70b.kv_read_bytes.value, 8);  // Q03.gqa_70b
  const Work of_8b = decode_work(llama_8b(), 1, 2048);
  expect_near(of_8b.flops().value / (of_8b.weight_bytes + of_8b.kv_read_bytes).value, 1.052674361,
              1e-3);  // Q38.decode_intensity
}

// Weights of one byte: bf16 bytes halved, norms included.
Work q7_work() {
  Work work = decode_work(llama_70b(), 32, 4096, 4);
  work.weight_bytes = work.weight_bytes / 2;
  return work;
}

TEST(Acceptance, mbu_of_llama_70b_on_four) {
  const Seconds step(13e-3);
  const Work work = q7_work();
  const auto percent = [&](Bytes bytes) { return 100 * (bytes / step).value / kH100Rate.value; };
  expect_near(percent(work.weight_bytes + work.kv_read_bytes), 64.55303524, 1e-3);  // Q07.mbu
  expect_near(-percent(work.kv_read_bytes), -24.65538057, 1e-3);                    // Q07.err_no_kv
  expect_near(percent(work.weight_bytes), 39.89765467, 1e-3);                       // Q07.err_dtype
}

TEST(Acceptance, floor_of_llama_70b_on_eight) {
  const Work work = decode_work(llama_70b(), 16, 2048, 8);
  expect_near(milliseconds(read_time(work)), 5.587443467, 1e-3);  // Q08.floor_ms
  // Our floor of the same step adds what goes over the wire, which Q8 books as a loss,
  const Floor floor = floor_seconds(lowered(llama_70b(), 8), decode_shape(16, 2048), h100());
  const Seconds wire = work.wire_bytes / BytesPerSecond(450e9);
  // and, on this device without a cache, the fp32 residual's way through memory in the norms.
  EXPECT_GT(milliseconds(floor.seconds - wire), 5.587443467);
  expect_near(milliseconds(floor.seconds - wire), 5.587443467, 2e-2);
}

TEST(Acceptance, batch_where_a_product_turns_compute_bound) {
  const Program program = lowered(llama_8b());
  const auto roof_at = [&](int64_t batch) {
    for (const Op& op : program.ops)
      if (op.stage == "ffn_down") {
        const Work work = work_of(op, decode_shape(batch, 1));
        return floor_seconds(work, h100(), work.streamed_bytes()).roof;
      }
    return Roof::wire;
  };
  EXPECT_EQ(roof_at(295), Roof::memory);  // Q09.bstar_bf16_h100: 295.22
  EXPECT_EQ(roof_at(296), Roof::matmul);
}

TEST(Acceptance, throughput_ceiling_and_knee) {
  const Work work = decode_work(llama_8b(), 1, 2048);
  expect_near(1 / (work.kv_read_bytes / kH100Rate).value, 12479.7225, 1e-3);  // Q10.ceiling
  expect_near(work.weight_bytes / work.kv_read_bytes, 55.91607666, 1e-3);     // Q10.knee
  expect_near(milliseconds(decode_work(llama_70b(), 1, 32768).kv_read_bytes / kH100Rate),
              3.205199475, 1e-3);  // Q18.packed_ms
}

}  // namespace
}  // namespace ridge
