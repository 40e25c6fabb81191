// Proof that a step can be priced without the engine: this program links base, tensor, model, kv,
// program and cost, and prints what a decode step of Llama 3.1 8B must take on a GPU that is not
// here. It fails if the published parameter count is missed by one.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstdio>

#include "cost/floor.h"
#include "cost/work_of.h"
#include "program/lower.h"

namespace {

// The published config.json (hidden_size, num_hidden_layers, ...), bf16.
ridge::ModelSpec llama_3_1_8b() {
  ridge::ModelSpec spec;
  spec.name = "Llama 3.1 8B";
  spec.architecture = ridge::Architecture::llama;
  spec.n_layers = 32;
  spec.d_model = 4096;
  spec.n_heads = 32;
  spec.n_kv_heads = 8;
  spec.head_dim = 128;
  spec.d_ff = 14336;
  spec.vocab_size = 128256;
  spec.context_length = 131072;
  spec.rope.dims = 128;
  spec.rope.base = 500000;
  spec.default_vector_dtype = ridge::DType::bf16;
  return spec;
}

constexpr int64_t kPublishedParameters = 8'030'261'248;  // the model card's 8.03 B, to the digit

// NVIDIA's H100 SXM datasheet: 3.35 TB/s, 989 TFLOP/s bf16 without sparsity.
ridge::Device h100() {
  ridge::Device device;
  device.name = "H100 SXM";
  device.levels = {{"HBM3", ridge::Bytes(80e9), ridge::BytesPerSecond(3.35e12)}};
  device.matmul_rate = device.attention_rate = ridge::FlopsPerSecond(989e12);
  device.matmul_arithmetic = "bf16";
  device.source = "datasheet";
  return device;
}

}  // namespace

int main() {
  const ridge::ModelSpec spec = llama_3_1_8b();
  const auto program = ridge::lower(spec);
  if (!program.has_value()) {
    std::printf("lower: %s\n", program.error().message.c_str());
    return 1;
  }
  const int64_t parameters = ridge::parameters_of(*program);
  const ridge::StepShape step{{{.new_rows = 1, .cached = 1023, .logit_rows = 1}}};
  const ridge::Work work = ridge::work_of(*program, step);
  const double floor_ms = milliseconds(ridge::floor_seconds(*program, step, h100()).seconds);
  std::printf("%s, bf16: %lld parameters (published %lld)\n", spec.name.c_str(),
              static_cast<long long>(parameters), static_cast<long long>(kPublishedParameters));
  std::printf(
      "a decode step at 1024 tokens: weights %.3f GB, KV %.3f MB, floor %.3f ms on %s (%s)\n",
      work.weight_bytes.value / 1e9, work.kv_read_bytes.value / 1e6, floor_ms, h100().name.c_str(),
      h100().source.c_str());
  // 2 bytes for each parameter but the embedding table, of which one row is read; 3.35 TB/s.
  const double weight_bytes = 2.0 * (kPublishedParameters - (spec.vocab_size - 1) * spec.d_model);
  const bool weights_match = work.weight_bytes.value == weight_bytes;
  const bool kv_matches = work.kv_read_bytes.value == 1024.0 * 2 * 2 * 8 * 128 * 32;
  const bool floor_is_near = std::fabs(floor_ms / (weight_bytes / 3.35e12 * 1e3) - 1) < 0.02;
  return parameters == kPublishedParameters && weights_match && kv_matches && floor_is_near ? 0 : 1;
}
