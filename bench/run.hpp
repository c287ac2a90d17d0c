// SPDX-License-Identifier: Apache-2.0
// How a benchmark program runs: the ceiling beside every figure, and what machine and version it was.
#pragma once

#include <benchmark/benchmark.h>

#include <cstring>
#include <string>

#include "support.hpp"

namespace bench {

inline void copy(benchmark::State& state, std::int64_t bytes) {
  const Buffer from(bytes);
  const Buffer to(bytes);
  fill(from, phasor::DType::f32);
  fill(to, phasor::DType::f32);
  for (auto _ : state) {
    std::memcpy(to.data(), from.data(), static_cast<std::size_t>(bytes));
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * bytes);
}

inline int run(int argc, char** argv, void (*register_all)()) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  const auto target = phasor::active_target();
  benchmark::AddCustomContext("target", target.ok() ? std::string(*target) : target.status().message());
  benchmark::AddCustomContext("version", std::string(phasor::version()));
  register_all();
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}

}  // namespace bench
