// SPDX-License-Identifier: Apache-2.0
// Biases put on a stream: diagonals, blocks, and the gradients of their parameters.
#include <string>

#include "cuda/bias/fill.hpp"
#include "cuda/bias/gradient.hpp"
#include "cuda/bias/tile.hpp"
#include "cuda/copies.hpp"
#include "cuda/device.hpp"
#include "cuda/job.cuh"
#include "cuda/run.hpp"
#include "cuda/threads.hpp"

namespace phasor::cuda {
namespace {

/// Out of line: nvcc compiles them once, and other schemes need few registers.
struct Long {
  static __device__ __noinline__ double kerple(const plan::BiasSource& bias, int64_t head, int64_t distance) {
    return plan::kerple_value(bias, head, distance);
  }
  static __device__ __noinline__ math::DoubleDouble sandwich_sum(const plan::BiasSource& bias, int64_t distance) {
    return plan::sandwich_sum(bias, distance);
  }
};

__global__ void __launch_bounds__(kItemThreads) fill_places(const __grid_constant__ Parameter<BiasWork> parameter) {
  const BiasWork& work = job_of(parameter);
  const int64_t step = int64_t{gridDim.x} * kItemThreads;
  for (int64_t item = int64_t{blockIdx.x} * kItemThreads + threadIdx.x; item < fill_items(work); item += step) {
    fill_item<Long>(work, item);
  }
}

template <DType dtype, int width>
__global__ void __launch_bounds__(kTileThreads) fill_tiles(const __grid_constant__ Parameter<BiasWork> parameter) {
  __shared__ TileRoom room;
  const BiasWork& work = job_of(parameter);
  BlockThreads block;
  for (int64_t index = blockIdx.x; index < tile_count(work); index += gridDim.x) fill_tile<dtype, width, Long>(work, index, room, block);
}
template <DType dtype>
const void* tile_kernel_of(bool vectors) {
  constexpr int kWidth = static_cast<int>(kVectorBytes / bytes_of(dtype));
  return vectors ? reinterpret_cast<const void*>(&fill_tiles<dtype, kWidth>) : reinterpret_cast<const void*>(&fill_tiles<dtype, 1>);
}
const void* tile_kernel_of(const BiasWork& work) {
  const bool vectors = takes_vectors(work);
  if (work.out.dtype == DType::f64) return tile_kernel_of<DType::f64>(vectors);
  if (work.out.dtype == DType::f16) return tile_kernel_of<DType::f16>(vectors);
  return work.out.dtype == DType::bf16 ? tile_kernel_of<DType::bf16>(vectors) : tile_kernel_of<DType::f32>(vectors);
}

__global__ void __launch_bounds__(kPerceptronThreads) fill_perceptrons(const __grid_constant__ Parameter<BiasWork> parameter) {
  extern __shared__ double memory[];
  const BiasWork& work = job_of(parameter);
  BlockThreads block;
  for (int64_t index = blockIdx.x; index * work.together < place_count(work); index += gridDim.x) {
    fill_perceptron_block(work, index, memory, block);
  }
}

/// A gradient and how many distances of it go together.
struct GradientWork : job::DiagonalGradientJob {
  int64_t together = 0;
};

__global__ void __launch_bounds__(kGradientThreads) sum_gradients(const __grid_constant__ Parameter<GradientWork> parameter) {
  __shared__ TermRoom room;
  const GradientWork& job = job_of(parameter);
  BlockThreads block;
  for (int64_t p = blockIdx.x; p < job.sum.shape[3]; p += gridDim.x) gradient_block(job, p, room, block);
}

__global__ void __launch_bounds__(kPerceptronThreads) sum_perceptrons(const __grid_constant__ Parameter<GradientWork> parameter) {
  extern __shared__ double memory[];
  __shared__ double sums[kPerceptronThreads];
  const GradientWork& job = job_of(parameter);
  BlockThreads block;
  for (int64_t index = blockIdx.x; index * kPerceptronThreads < job.sum.shape[3]; index += gridDim.x) {
    perceptron_gradient_block(job, index, {memory, job.together, sums}, block);
  }
}

Status too_wide(const char* where) {
  return Status::unsupported(std::string(where) + ": the layers of mlp are too wide for CUDA: what one distance needs takes more than " +
                             std::to_string(kPerceptronBytes) + " bytes");
}

std::size_t bytes_of_numbers(int64_t numbers) { return static_cast<std::size_t>(numbers) * sizeof(double); }

Status fill(const char* where, Device device, const BiasWork& work, const Execution& execution) {
  const CurrentDevice current(where, device);
  if (!current.status().ok()) return current.status();
  Parameter<BiasWork> parameter(work);
  BiasWork& placed = parameter.job;
  const bool perceptron = plan::has_perceptron(work.bias);
  const int64_t numbers = perceptron ? read_size(work.bias.mlp) : 0;
  if (perceptron) placed.together = distances_together(numbers);
  if (perceptron && placed.together == 0) return too_wide(where);
  if (Status s = place_tables(where, device, parameter.tables, placed); !s) return s;
  if (takes_tiles(work)) {
    return launch(where, {tile_kernel_of(work), {blocks_for(tile_count(work), 1)}, kTileThreads, 0, execution.stream}, &parameter);
  }
  if (!perceptron) {
    const auto kernel = reinterpret_cast<const void*>(&fill_places);
    return launch(where, {kernel, {blocks_for(fill_items(work), kItemThreads)}, kItemThreads, 0, execution.stream}, &parameter);
  }
  const auto kernel = reinterpret_cast<const void*>(&fill_perceptrons);
  const unsigned blocks = blocks_for(place_count(work), placed.together);
  return launch(where, {kernel, {blocks}, kPerceptronThreads, bytes_of_numbers(numbers * placed.together), execution.stream}, &parameter);
}

}  // namespace

Status run_bias_diagonal(job::DiagonalJob& job, const Execution& execution) {
  return fill("Bias::diagonal", job.device, work_of(job), execution);
}

Status run_bias_fill(job::BlockJob& job, const Execution& execution) { return fill("Bias::fill", job.device, work_of(job), execution); }

Status run_bias_gradient(job::DiagonalGradientJob& job, const Execution& execution) {
  const char* const where = "Bias::gradient";
  if (job.sum.shape[3] == 0) return {};
  const CurrentDevice current(where, job.device);
  if (!current.status().ok()) return current.status();
  Parameter<GradientWork> parameter(GradientWork{job});
  GradientWork& placed = parameter.job;
  const bool perceptron = plan::has_perceptron(job.bias);
  const int64_t numbers = perceptron ? backward_size(job.bias.mlp, job.diagonal.shape[1]) : 0;
  if (perceptron) placed.together = distances_together(numbers);
  if (perceptron && placed.together == 0) return too_wide(where);
  if (Status s = place_tables(where, job.device, parameter.tables, placed); !s) return s;
  if (!perceptron) {
    const auto kernel = reinterpret_cast<const void*>(&sum_gradients);
    return launch(where, {kernel, {blocks_for(job.sum.shape[3], 1)}, kGradientThreads, 0, execution.stream}, &parameter);
  }
  const auto kernel = reinterpret_cast<const void*>(&sum_perceptrons);
  const unsigned blocks = blocks_for(job.sum.shape[3], kPerceptronThreads);
  return launch(where, {kernel, {blocks}, kPerceptronThreads, bytes_of_numbers(numbers * placed.together), execution.stream}, &parameter);
}

}  // namespace phasor::cuda
