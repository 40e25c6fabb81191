// How fast the matmul kernels are on one thread: packed weight bytes per second and int8 or float
// operations per second, by shape, weight type and ISA. With one row of activations the weights are
// walked through copies that together exceed the L2 cache, as a decode step does.
//   kernel_matmul --benchmark_filter='Q4_1/.*M:1$'
// SPDX-License-Identifier: Apache-2.0
#include <benchmark/benchmark.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/rng.h"
#include "kernels/matmul.h"
#include "kernels/probe.h"
#include "tensor/codec.h"

namespace ridge {
namespace {

struct Case {
  Isa isa;
  DType dtype;
  int64_t rows, cols, batch;
};

// What all copies of a weight take together: far beyond any L2.
constexpr int64_t kWorkingSetBytes = 64 << 20;

AlignedBuffer random_bytes(int64_t n) {
  AlignedBuffer buffer(static_cast<size_t>(n));
  Rng rng(1);
  for (int64_t i = 0; i + 8 <= n; i += 8) {
    // As f16, bf16 and f32 alike: positive, below 1, not subnormal.
    const uint64_t bits = (rng.next() & 0x3bff3bff3bff3bffULL) | 0x3000300030003000ULL;
    std::memcpy(buffer.data() + i, &bits, 8);
  }
  return buffer;
}

// Kernel time does not depend on the values, so the packed bytes may be random.
void run(benchmark::State& state, const Case& c) {
  const int64_t bytes = packed_bytes(c.dtype, c.rows, c.cols);
  const int64_t copies = c.batch == 1 ? (kWorkingSetBytes + bytes - 1) / bytes : 1;
  const AlignedBuffer weights = random_bytes(bytes * copies);
  Rng rng(2);
  std::vector<float> x(static_cast<size_t>(c.batch * c.cols));
  for (float& value : x) value = static_cast<float>(rng.uniform()) - 0.5f;
  std::vector<float> y(static_cast<size_t>(c.batch * c.rows));
  std::vector<int8_t> q8(x.size());
  std::vector<float> scale(x.size() / kActivationBlock + 1), block_sum(scale.size());
  const MatmulKernels& kernels = matmul_kernels(c.isa);
  Activations a{.rows = c.batch, .cols = c.cols};
  if (takes_int8(c.dtype)) {
    kernels.quantize(x.data(), c.batch, c.cols, q8.data(), scale.data(), block_sum.data());
    a.q8 = q8.data();
    a.scale = scale.data();
    a.block_sum = block_sum.data();
  } else {
    a.f32 = x.data();
  }
  int64_t copy = 0;
  for (auto _ : state) {
    const PackedView w{weights.data() + copy * bytes, c.dtype, c.rows, c.cols};
    kernels.matmul(w, a, 0, w.tiles(), y.data(), c.rows, false);
    benchmark::DoNotOptimize(y.data());
    copy = (copy + 1) % copies;
  }
  const double calls = static_cast<double>(state.iterations());
  state.counters["weight_B/s"] =
      benchmark::Counter(calls * static_cast<double>(bytes), benchmark::Counter::kIsRate);
  state.counters["op/s"] = benchmark::Counter(
      calls * 2.0 * static_cast<double>(c.batch * c.rows * c.cols), benchmark::Counter::kIsRate);
}

// What reading the same working set and nothing else reaches: the ceiling of the batch-1 rows.
void read_only(benchmark::State& state, Isa isa) {
  constexpr int64_t kAheadBytes = 4096;
  const AlignedBuffer buffer = random_bytes(kWorkingSetBytes);
  for (auto _ : state) {
    probe_kernels(isa).read(buffer.data(), kWorkingSetBytes, kAheadBytes);
    benchmark::ClobberMemory();
  }
  state.counters["weight_B/s"] = benchmark::Counter(
      static_cast<double>(state.iterations()) * kWorkingSetBytes, benchmark::Counter::kIsRate);
}

void register_all() {
  // SmolLM2-135M: attention, FFN up and down, output; Llama 3.2 1B: attention, FFN up.
  constexpr int64_t kShapes[][2] = {{576, 576},   {1536, 576},  {576, 1536},
                                    {49152, 576}, {2048, 2048}, {8192, 2048}};
  constexpr DType kTypes[] = {DType::q4_0, DType::q4_1, DType::q5_0, DType::q5_1,
                              DType::q8_0, DType::q4_k, DType::q5_k, DType::q6_k,
                              DType::f32,  DType::f16,  DType::bf16, DType::q2_k};
  for (Isa isa : cpu_isas()) {
    benchmark::RegisterBenchmark((std::string(name_of(isa)) + "/read").c_str(),
                                 [isa](benchmark::State& s) { read_only(s, isa); });
    for (DType dtype : kTypes) {
      for (const auto& [rows, cols] : kShapes) {
        if (cols % block_format(dtype).elements != 0) continue;
        for (int64_t batch : {1, 8, 512}) {
          const Case c{isa, dtype, rows, cols, batch};
          const std::string name = std::string(name_of(isa)) + "/" + std::string(name_of(dtype)) +
                                   "/" + std::to_string(rows) + "x" + std::to_string(cols) +
                                   "/M:" + std::to_string(batch);
          benchmark::RegisterBenchmark(name.c_str(), [c](benchmark::State& s) {
            run(s, c);
          })->MinTime(0.1);
        }
      }
    }
  }
}

}  // namespace
}  // namespace ridge

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  ridge::register_all();
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
