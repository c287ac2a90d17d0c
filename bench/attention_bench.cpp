// SPDX-License-Identifier: Apache-2.0
// Attention beside its ceilings: plain beside the fused operations of one core, schemes beside plain, decoding beside reading the cache.
// tools/bench_table.py turns the JSON into a table.
#include <benchmark/benchmark.h>

#include <string>

#include "attention_case.hpp"
#include "fma_peak.hpp"
#include "run.hpp"

namespace {

using bench::AttentionCase;
using bench::AttentionProblem;
using bench::Scheme;
using phasor::DType;

/// The same attention, small, in this dtype and in float64: gradients must agree.
bool has_right_gradients(AttentionCase c) {
  c.queries = c.keys = 160;
  const double limit = c.dtype == DType::f32 ? 1e-4 : 0.1;
  AttentionProblem is(c);
  c.dtype = DType::f64;
  AttentionProblem wanted(c);
  return is.attend() && is.attend_backward() && wanted.attend() && wanted.attend_backward() && is.gradient_distance(wanted) < limit;
}

void attend(benchmark::State& state, const AttentionCase& c) {
  AttentionProblem problem(c);
  if (!problem.attend() || !problem.is_right()) return state.SkipWithError("wrong result");
  if (c.backward && (!has_right_gradients(c) || !problem.attend_backward())) return state.SkipWithError("wrong gradients");
  bool ok = true;
  for (auto _ : state) ok &= c.backward ? problem.attend_backward() : problem.attend();
  if (!ok) state.SkipWithError("failed");
  state.SetItemsProcessed(static_cast<std::int64_t>(static_cast<double>(state.iterations()) * c.operations()));
}

/// What decoding cannot be faster than: every key and value once.
void read_cache(benchmark::State& state, std::int64_t bytes) {
  const bench::Buffer cache(bytes);
  bench::fill(cache, DType::f32);
  for (auto _ : state) {
    float sums[64] = {};
    const float* x = static_cast<const float*>(cache.data());
    for (std::int64_t i = 0; i + 64 <= bytes / 4; i += 64) {
      for (int j = 0; j < 64; ++j) sums[j] += x[i + j];
    }
    benchmark::DoNotOptimize(sums);
  }
  state.SetBytesProcessed(state.iterations() * bytes);
}

void decode(benchmark::State& state, const AttentionCase& c) {
  AttentionProblem problem(c);
  if (!problem.attend() || !problem.is_right()) return state.SkipWithError("wrong result");
  bool ok = true;
  for (auto _ : state) ok &= problem.attend();
  if (!ok) state.SkipWithError("failed");
  state.SetBytesProcessed(state.iterations() * 2 * c.keys * c.key_heads * c.width * phasor::bytes_of(c.dtype));
}

void peak(benchmark::State& state) {
  const auto target = phasor::active_target();
  const bench::FmaPeak fma = bench::fma_peak(target.ok() ? std::string_view(*target) : std::string_view());
  constexpr std::int64_t kSteps = 200000;
  for (auto _ : state) benchmark::DoNotOptimize(fma.run(kSteps));
  state.SetItemsProcessed(state.iterations() * kSteps * fma.operations);
}

std::string name_of(const AttentionCase& c) {
  return std::string("attention/") + (c.backward ? "backward/" : "forward/") + bench::name_of(c.scheme) + "/" + phasor::name_of(c.dtype) +
         "/" + (c.causal ? "causal" : "full") + "/D" + std::to_string(c.width) + "/n" + std::to_string(c.keys);
}

void add(const AttentionCase& c) {
  // The time of the processor, not of the clock: one thread, and a busy machine takes nothing from it but its caches.
  benchmark::RegisterBenchmark(name_of(c).c_str(), [c](benchmark::State& s) { attend(s, c); });
}

void register_plain() {
  for (const bool backward : {false, true}) {
    for (const std::int64_t tokens : {1024, 4096}) {
      for (const std::int64_t width : {64, 128}) {
        for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
          for (const bool causal : {false, true}) {
            add({.dtype = dtype, .causal = causal, .width = width, .queries = tokens, .keys = tokens, .backward = backward});
          }
        }
      }
    }
  }
}

void register_schemes() {
  for (const bool backward : {false, true}) {
    for (const std::int64_t tokens : {1024, 4096}) {
      for (const Scheme scheme : {Scheme::alibi, Scheme::t5, Scheme::shaw, Scheme::transformer_xl, Scheme::deberta}) {
        add({.queries = tokens, .keys = tokens, .scheme = scheme, .backward = backward});
      }
      for (const Scheme scheme : {Scheme::alibi, Scheme::t5, Scheme::transformer_xl}) {
        add({.causal = true, .queries = tokens, .keys = tokens, .scheme = scheme, .backward = backward});
      }
    }
  }
}

void register_decoding() {
  constexpr std::int64_t kKeys = 16384;
  constexpr std::int64_t kKeyHeads = 8;
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    const std::int64_t bytes = 2 * kKeys * kKeyHeads * 128 * phasor::bytes_of(dtype);
    const std::string suffix = std::string("/") + phasor::name_of(dtype);
    benchmark::RegisterBenchmark(("attention/read_cache" + suffix).c_str(), [bytes](benchmark::State& s) { read_cache(s, bytes); });
    for (const std::int64_t queries : {1, 8}) {
      for (const std::int64_t group : {1, 4}) {
        AttentionCase c{.dtype = dtype, .causal = true, .width = 128, .queries = queries, .keys = kKeys};
        c.key_heads = kKeyHeads;
        c.heads = group * kKeyHeads;
        const std::string name = "attention/decode" + suffix + "/q" + std::to_string(queries) + "/group" + std::to_string(group);
        benchmark::RegisterBenchmark(name.c_str(), [c](benchmark::State& s) { decode(s, c); });
      }
    }
  }
}

void register_all() {
  benchmark::RegisterBenchmark("attention/fma_peak", peak);
  register_plain();
  register_schemes();
  register_decoding();
}

}  // namespace

int main(int argc, char** argv) { return bench::run(argc, argv, register_all); }
