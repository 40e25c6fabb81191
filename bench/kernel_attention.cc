// What the attention kernels reach, one thread, per kernel family: GFLOP/s of the scores and the
// weighted values of keys that the mask lets through, and the bytes of KV that a pass must read at
// least once. Prefill: 512 rows from nothing. Decode: one row over a context. The cache is cycled
// over several layers' worth, so that decode reads memory as a model does and not one hot block.
// SPDX-License-Identifier: Apache-2.0
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "base/aligned_buffer.h"
#include "kernels/attention.h"

namespace ridge {
namespace {

struct Model {
  const char* name;
  int64_t n_heads, n_kv_heads, head_dim, window, n_layers;
};
// Shapes from the models' GGUF metadata.
constexpr Model kModels[] = {{"smollm2_135m", 9, 3, 64, 0, 30},
                             {"gemma3_270m", 4, 1, 256, 512, 18}};

class Cache {
 public:
  Cache(const Model& m, const AttentionKernels& kernels, int64_t context, int64_t n_layers)
      : pages_(static_cast<size_t>((context + kKvPageTokens - 1) / kKvPageTokens)),
        layer_bytes_(static_cast<int64_t>(pages_.size()) * m.n_kv_heads *
                     kv_block_bytes(DType::f16, m.head_dim)),
        memory_(static_cast<size_t>(layer_bytes_ * n_layers)) {
    std::mt19937 random(1);
    std::uniform_real_distribution<float> uniform(-1, 1);
    for (size_t i = 0; i < pages_.size(); ++i) pages_[i] = static_cast<int32_t>(i);
    std::vector<float> k(static_cast<size_t>(m.n_kv_heads * m.head_dim));
    for (int64_t layer = 0; layer < n_layers; ++layer) {
      layers_.push_back(
          {memory_.data() + layer * layer_bytes_, DType::f16, m.n_kv_heads, m.head_dim});
      for (int64_t t = 0; t < context; ++t) {
        for (float& x : k) x = uniform(random);
        kernels.append(layers_.back(), pages_[static_cast<size_t>(t / kKvPageTokens)],
                       t % kKvPageTokens, k.data(), k.data());
      }
    }
  }
  const KvLayerView& layer(size_t i) const { return layers_[i % layers_.size()]; }
  const int32_t* pages() const { return pages_.data(); }

 private:
  std::vector<int32_t> pages_;
  int64_t layer_bytes_;
  AlignedBuffer memory_;
  std::vector<KvLayerView> layers_;
};

int64_t keys_seen(const Model& m, int64_t position) {
  return m.window > 0 ? std::min(m.window, position + 1) : position + 1;
}

void attend(benchmark::State& state, Isa isa, Model m, int64_t first, int64_t n_rows,
            int64_t n_layers) {
  const AttentionKernels& kernels = attention_kernels(isa);
  const int64_t context = first + n_rows, stride = m.n_heads * m.head_dim;
  const Cache cache(m, kernels, context, n_layers);
  std::vector<float> q(static_cast<size_t>(n_rows * stride), 0.1f), out = q;
  std::vector<float> scratch(
      static_cast<size_t>(kernels.scratch_floats(m.n_heads / m.n_kv_heads, m.head_dim)));
  const AttentionShape shape{m.n_heads, 1 / std::sqrt(static_cast<float>(m.head_dim)), m.window};
  const AttentionRows rows{q.data(), out.data(), stride, n_rows, first, cache.pages()};
  size_t layer = 0;
  for (auto _ : state) {
    for (int64_t h = 0; h < m.n_kv_heads; ++h) {
      kernels.attend(shape, cache.layer(layer), rows, h, scratch.data());
    }
    ++layer;
    benchmark::ClobberMemory();
  }
  double flops = 0;
  for (int64_t p = first; p < context; ++p) {
    flops += 4.0 * static_cast<double>(keys_seen(m, p) * stride);
  }
  const double keys = static_cast<double>(std::min(context, keys_seen(m, first) + n_rows - 1));
  const double kv_bytes = keys * static_cast<double>(2 * 2 * m.n_kv_heads * m.head_dim);
  const auto per_second = benchmark::Counter::kIsIterationInvariantRate;
  state.counters["FLOP/s"] = benchmark::Counter(flops, per_second);
  state.counters["KV_B/s"] = benchmark::Counter(kv_bytes, per_second);
}

void register_all() {
  for (Isa isa : cpu_isas()) {
    for (const Model& m : kModels) {
      const std::string name = std::string(m.name) + "/" + std::string(name_of(isa));
      benchmark::RegisterBenchmark(
          (name + "/prefill_512").c_str(),
          [isa, m](benchmark::State& state) { attend(state, isa, m, 0, 512, 1); });
      for (int64_t context : {128, 1024, 8192}) {
        benchmark::RegisterBenchmark((name + "/decode_" + std::to_string(context)).c_str(),
                                     [isa, m, context](benchmark::State& state) {
                                       attend(state, isa, m, context - 1, 1, m.n_layers);
                                     });
      }
    }
  }
}

}  // namespace
}  // namespace ridge

int main(int argc, char** argv) {
  ridge::register_all();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
