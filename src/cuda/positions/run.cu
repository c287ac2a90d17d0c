// SPDX-License-Identifier: Apache-2.0
// Positions, slots and factors of queries put on a stream: a thread per token.
#include "cuda/device.hpp"
#include "cuda/positions/build.hpp"
#include "cuda/positions/temperature.hpp"
#include "cuda/run.hpp"
#include "cuda/threads.hpp"
#include "cuda/tuning.hpp"

namespace phasor::cuda {
namespace {

__global__ void __launch_bounds__(kItemThreads) build_tokens(const __grid_constant__ job::BuildJob job) {
  const int64_t step = int64_t{gridDim.x} * kItemThreads;
  for (int64_t item = int64_t{blockIdx.x} * kItemThreads + threadIdx.x; item < build_items(job); item += step) build_item(job, item);
}

__global__ void __launch_bounds__(kItemThreads) fill_factors(const __grid_constant__ job::TemperatureJob job) {
  const int64_t step = int64_t{gridDim.x} * kItemThreads;
  for (int64_t item = int64_t{blockIdx.x} * kItemThreads + threadIdx.x; item < temperature_items(job); item += step) {
    temperature_item(job, item);
  }
}

}  // namespace

Status run_build_positions(job::BuildJob& job, const Execution& execution) {
  const char* const where = name_of(job.kind);
  if (job.out.shape[1] == 0 || job.out.shape[2] == 0) return {};
  const CurrentDevice current(where, job.device);
  if (!current.status().ok()) return current.status();
  const auto kernel = reinterpret_cast<const void*>(&build_tokens);
  return launch(where, {kernel, {blocks_for(build_items(job), kItemThreads)}, kItemThreads, 0, execution.stream}, &job);
}

Status run_temperature(job::TemperatureJob& job, const Execution& execution) {
  if (temperature_items(job) == 0) return {};
  const CurrentDevice current(job::kFillTemperature, job.device);
  if (!current.status().ok()) return current.status();
  const auto kernel = reinterpret_cast<const void*>(&fill_factors);
  return launch(job::kFillTemperature, {kernel, {blocks_for(temperature_items(job), kItemThreads)}, kItemThreads, 0, execution.stream},
                &job);
}

}  // namespace phasor::cuda
