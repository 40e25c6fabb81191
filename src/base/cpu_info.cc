// SPDX-License-Identifier: Apache-2.0
#include "base/cpu_info.h"

#include <sched.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <thread>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace ridge {
namespace {

constexpr Isa kIsas[] = {Isa::plain, Isa::avx2, Isa::avx512_vnni};

#if defined(__x86_64__)

struct CpuidRegisters {
  unsigned a = 0, b = 0, c = 0, d = 0;
};

// All zero where the CPU does not have the leaf.
CpuidRegisters cpuid(unsigned leaf, unsigned subleaf) {
  CpuidRegisters r;
  if (!__get_cpuid_count(leaf, subleaf, &r.a, &r.b, &r.c, &r.d)) return {};
  return r;
}

bool bit(unsigned word, int index) { return (word >> index & 1u) != 0; }

// What the operating system saves and restores on a context switch (XCR0); 0 without OSXSAVE.
uint64_t saved_state() {
  if (!bit(cpuid(1, 0).c, 27)) return 0;
  uint32_t low = 0, high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return uint64_t{high} << 32 | low;
}

// Bit numbers: Intel SDM vol. 2A, CPUID; XCR0: vol. 1, 13.3.
struct CpuFeatures {
  bool avx2 = false;
  bool avx512_vnni = false;

  CpuFeatures() {
    const CpuidRegisters leaf1 = cpuid(1, 0);
    const CpuidRegisters leaf7 = cpuid(7, 0);
    const uint64_t state = saved_state();
    const bool saves_ymm = (state & 0x6) == 0x6;
    const bool saves_zmm = (state & 0xe6) == 0xe6;
    const bool fma = bit(leaf1.c, 12), avx = bit(leaf1.c, 28), f16c = bit(leaf1.c, 29);
    // Highway's AVX2 and AVX3 targets let the compiler use BMI1 and BMI2 as well.
    const bool bmi = bit(leaf7.b, 3) && bit(leaf7.b, 8);
    avx2 = saves_ymm && avx && fma && f16c && bmi && bit(leaf7.b, 5);
    const bool f = bit(leaf7.b, 16), dq = bit(leaf7.b, 17), bw = bit(leaf7.b, 30);
    const bool vl = bit(leaf7.b, 31), vnni = bit(leaf7.c, 11);
    avx512_vnni = avx2 && saves_zmm && f && dq && bw && vl && vnni;
  }
};

const CpuFeatures& features() {
  static const CpuFeatures found;
  return found;
}

#endif

std::string list_of(const std::vector<Isa>& isas) {
  std::string text;
  for (size_t i = 0; i < isas.size(); ++i) {
    if (i > 0) text += i + 1 == isas.size() ? " and " : ", ";
    text += name_of(isas[i]);
  }
  return text;
}

}  // namespace

std::string_view name_of(Isa isa) {
  switch (isa) {
    case Isa::plain:
      return "plain";
    case Isa::avx2:
      return "avx2";
    case Isa::avx512_vnni:
      return "avx512_vnni";
  }
  CHECK(false);
}

bool cpu_has(Isa isa) {
#if defined(__x86_64__)
  if (isa == Isa::avx2) return features().avx2;
  if (isa == Isa::avx512_vnni) return features().avx512_vnni;
#endif
  return isa == Isa::plain;
}

std::vector<Isa> cpu_isas() {
  std::vector<Isa> found;
  for (Isa isa : kIsas) {
    if (cpu_has(isa)) found.push_back(isa);
  }
  return found;
}

Result<Isa> isa_named(std::string_view name, const std::vector<Isa>& available) {
  for (Isa isa : kIsas) {
    if (name != name_of(isa)) continue;
    for (Isa have : available) {
      if (have == isa) return isa;
    }
    return Error{ErrorCode::usage, "RIDGE_ISA=" + std::string(name) +
                                       " asks for kernels that this CPU cannot run; it can run " +
                                       list_of(available)};
  }
  return Error{ErrorCode::usage, "RIDGE_ISA=" + std::string(name) +
                                     " is not a kernel family; expected one of " +
                                     list_of({std::begin(kIsas), std::end(kIsas)})};
}

Result<Isa> selected_isa() {
  static const Result<Isa> selected = []() -> Result<Isa> {
    const char* forced = std::getenv("RIDGE_ISA");
    const std::vector<Isa> available = cpu_isas();
    if (forced == nullptr || *forced == '\0') return available.back();
    return isa_named(forced, available);
  }();
  return selected;
}

std::string cpu_name() {
#if defined(__x86_64__)
  if (__get_cpuid_max(0x80000000u, nullptr) >= 0x80000004u) {
    char brand[49] = {};
    for (unsigned i = 0; i < 3; ++i) {
      const CpuidRegisters r = cpuid(0x80000002u + i, 0);
      const unsigned words[4] = {r.a, r.b, r.c, r.d};
      std::memcpy(brand + 16 * i, words, sizeof words);
    }
    const std::string text = brand;
    const size_t first = text.find_first_not_of(' ');
    if (first != std::string::npos) {
      return text.substr(first, text.find_last_not_of(' ') - first + 1);
    }
  }
#endif
  return "unknown CPU";
}

int usable_cpus() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
  // More CPUs than cpu_set_t holds.
  const unsigned n = std::thread::hardware_concurrency();
  return n == 0 ? 1 : static_cast<int>(n);
}

}  // namespace ridge
