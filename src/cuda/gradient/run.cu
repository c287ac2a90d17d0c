// SPDX-License-Identifier: Apache-2.0
// Gradients of learned rotations on a stream: by phases a thread per pair or vector of pairs, by frequencies a block per few of them, by
// positions a thread per token.
#include "cuda/copies.hpp"
#include "cuda/device.hpp"
#include "cuda/gradient/frequency.hpp"
#include "cuda/gradient/phase.hpp"
#include "cuda/gradient/phase_vectors.hpp"
#include "cuda/gradient/position.hpp"
#include "cuda/job.cuh"
#include "cuda/run.hpp"
#include "cuda/threads.hpp"

namespace phasor::cuda {
namespace {

__global__ void __launch_bounds__(kItemThreads) phase_gradients(const __grid_constant__ job::PhaseGradientJob job) {
  const int64_t step = int64_t{gridDim.x} * kItemThreads;
  for (int64_t item = int64_t{blockIdx.x} * kItemThreads + threadIdx.x; item < phase_items(job); item += step) {
    phase_gradient_item(job, item);
  }
}

template <DType dtype, Pairing pairing>
__global__ void __launch_bounds__(kItemThreads) phase_gradients_by_vectors(const __grid_constant__ job::PhaseGradientJob job) {
  const int64_t step = int64_t{gridDim.x} * kItemThreads;
  for (int64_t index = int64_t{blockIdx.x} * kItemThreads + threadIdx.x; index < phase_vectors<dtype>(job); index += step) {
    phase_gradient_vector<dtype, pairing>(job, index);
  }
}
template <DType dtype>
const void* phase_kernel_of(bool interleaved) {
  return interleaved ? reinterpret_cast<const void*>(&phase_gradients_by_vectors<dtype, Pairing::interleaved>)
                     : reinterpret_cast<const void*>(&phase_gradients_by_vectors<dtype, Pairing::half>);
}
const void* phase_kernel_of(DType dtype, bool interleaved) {
  if (dtype == DType::f64) return phase_kernel_of<DType::f64>(interleaved);
  if (dtype == DType::f16) return phase_kernel_of<DType::f16>(interleaved);
  return dtype == DType::bf16 ? phase_kernel_of<DType::bf16>(interleaved) : phase_kernel_of<DType::f32>(interleaved);
}

__global__ void __launch_bounds__(kFrequencyThreads)
    frequency_gradients(const __grid_constant__ Parameter<job::FrequencyGradientJob> parameter) {
  __shared__ FrequencyRoom room;
  const job::FrequencyGradientJob& job = job_of(parameter);
  BlockThreads block;
  for (int64_t index = blockIdx.x; index < frequency_blocks(job); index += gridDim.x) frequency_gradient_block(job, index, room, block);
}

template <class T>
__global__ void __launch_bounds__(kItemThreads) position_gradients(const __grid_constant__ Parameter<job::PositionGradientJob> parameter) {
  const job::PositionGradientJob& job = job_of(parameter);
  const int64_t step = int64_t{gridDim.x} * kItemThreads;
  for (int64_t item = int64_t{blockIdx.x} * kItemThreads + threadIdx.x; item < position_items(job); item += step) {
    position_gradient_item<T>(job, item);
  }
}

}  // namespace

Status run_phase_gradient(job::PhaseGradientJob& job, const Execution& execution) {
  const char* const where = "phase_gradient";
  if (is_empty(job.out.shape)) return {};
  const CurrentDevice current(where, job.device);
  if (!current.status().ok()) return current.status();
  if (takes_vectors(job)) {
    const int64_t threads = phase_items(job) / (kVectorBytes / bytes_of(job.rotated.dtype));
    const void* const kernel = phase_kernel_of(job.rotated.dtype, job.interleaved);
    return launch(where, {kernel, {blocks_for(threads, kItemThreads)}, kItemThreads, 0, execution.stream}, &job);
  }
  const auto kernel = reinterpret_cast<const void*>(&phase_gradients);
  return launch(where, {kernel, {blocks_for(phase_items(job), kItemThreads)}, kItemThreads, 0, execution.stream}, &job);
}

Status run_frequency_gradient(job::FrequencyGradientJob& job, const Execution& execution) {
  const char* const where = "frequency_gradient";
  if (is_empty(job.gradient.shape)) return {};
  const CurrentDevice current(where, job.device);
  if (!current.status().ok()) return current.status();
  Parameter<job::FrequencyGradientJob> parameter(job);
  if (Status s = place_tables(where, job.device, parameter.tables, parameter.job); !s) return s;
  const auto kernel = reinterpret_cast<const void*>(&frequency_gradients);
  return launch(where, {kernel, {blocks_for(frequency_blocks(job), 1)}, kFrequencyThreads, 0, execution.stream}, &parameter);
}

Status run_position_gradient(job::PositionGradientJob& job, const Execution& execution) {
  const char* const where = "position_gradient";
  if (position_items(job) == 0) return {};
  const CurrentDevice current(where, job.device);
  if (!current.status().ok()) return current.status();
  Parameter<job::PositionGradientJob> parameter(job);
  if (Status s = place_tables(where, job.device, parameter.tables, parameter.job); !s) return s;
  const auto kernel = job.gradient.dtype == DType::f64 ? reinterpret_cast<const void*>(&position_gradients<double>)
                                                       : reinterpret_cast<const void*>(&position_gradients<float>);
  return launch(where, {kernel, {blocks_for(position_items(job), kItemThreads)}, kItemThreads, 0, execution.stream}, &parameter);
}

}  // namespace phasor::cuda
