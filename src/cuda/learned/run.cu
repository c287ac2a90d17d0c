// SPDX-License-Identifier: Apache-2.0
// Learned tables on a stream: a thread per channel or vector looked up, a warp per row whose gradients are summed.
#include "cuda/device.hpp"
#include "cuda/learned/lookup.hpp"
#include "cuda/learned/scatter.hpp"
#include "cuda/learned/vectors.hpp"
#include "cuda/run.hpp"
#include "cuda/threads.hpp"
#include "cuda/tuning.hpp"

namespace phasor::cuda {
namespace {

template <DType dtype>
__global__ void __launch_bounds__(kItemThreads) lookup_channels(const __grid_constant__ job::LookupJob job) {
  const int64_t step = int64_t{gridDim.x} * kItemThreads;
  for (int64_t item = int64_t{blockIdx.x} * kItemThreads + threadIdx.x; item < lookup_items(job); item += step) {
    lookup_channel<dtype>(job, item);
  }
}

template <DType dtype>
__global__ void __launch_bounds__(kItemThreads) lookup_by_vectors(const __grid_constant__ job::LookupJob job) {
  const WalkShape shape = lookup_shape(job);
  const int64_t threads = shape.items * shape.walks * job.batch;
  const int64_t step = int64_t{gridDim.x} * kItemThreads;
  for (int64_t index = int64_t{blockIdx.x} * kItemThreads + threadIdx.x; index < threads; index += step) {
    lookup_vectors<dtype>(job, shape, index);
  }
}

const void* vector_kernel_of(DType dtype) {
  if (dtype == DType::f64) return reinterpret_cast<const void*>(&lookup_by_vectors<DType::f64>);
  if (dtype == DType::f16) return reinterpret_cast<const void*>(&lookup_by_vectors<DType::f16>);
  if (dtype == DType::bf16) return reinterpret_cast<const void*>(&lookup_by_vectors<DType::bf16>);
  return reinterpret_cast<const void*>(&lookup_by_vectors<DType::f32>);
}
const void* kernel_of(DType dtype) {
  if (dtype == DType::f64) return reinterpret_cast<const void*>(&lookup_channels<DType::f64>);
  if (dtype == DType::f16) return reinterpret_cast<const void*>(&lookup_channels<DType::f16>);
  if (dtype == DType::bf16) return reinterpret_cast<const void*>(&lookup_channels<DType::bf16>);
  return reinterpret_cast<const void*>(&lookup_channels<DType::f32>);
}

template <DType dtype, bool vectors>
__global__ void __launch_bounds__(kScatterThreads, 2) scatter_rows(const __grid_constant__ ScatterWork work) {
  __shared__ ScatterRoom room;
  BlockThreads block;
  for (int64_t index = blockIdx.x; index < scatter_blocks(work); index += gridDim.x) {
    scatter_block<dtype, vectors>(work, index, room, block);
  }
}
template <DType dtype>
const void* scatter_kernel_of(bool vectors) {
  return vectors ? reinterpret_cast<const void*>(&scatter_rows<dtype, true>) : reinterpret_cast<const void*>(&scatter_rows<dtype, false>);
}
const void* scatter_kernel_of(DType dtype, bool vectors) {
  if (dtype == DType::f64) return scatter_kernel_of<DType::f64>(vectors);
  if (dtype == DType::f16) return scatter_kernel_of<DType::f16>(vectors);
  return dtype == DType::bf16 ? scatter_kernel_of<DType::bf16>(vectors) : scatter_kernel_of<DType::f32>(vectors);
}

}  // namespace

Status run_lookup(job::LookupJob& job, const Execution& execution) {
  const char* const where = "lookup_add";
  if (job.target.out == nullptr || lookup_items(job) == 0) return {};
  const CurrentDevice current(where, job.device);
  if (!current.status().ok()) return current.status();
  if (takes_vectors(job)) {
    const unsigned blocks = blocks_for(walk_threads(lookup_shape(job), job.batch), kItemThreads);
    return launch(where, {vector_kernel_of(job.target.dtype), {blocks}, kItemThreads, 0, execution.stream}, &job);
  }
  const unsigned blocks = blocks_for(lookup_items(job), kItemThreads);
  return launch(where, {kernel_of(job.target.dtype), {blocks}, kItemThreads, 0, execution.stream}, &job);
}

Status run_scatter(job::ScatterJob& job, const Execution& execution) {
  const char* const where = "scatter_gradient";
  if (is_empty(job.table.shape) || is_empty(job.gradient.shape)) return {};
  const CurrentDevice current(where, job.device);
  if (!current.status().ok()) return current.status();
  ScatterWork work = work_of(job);
  const void* const kernel = scatter_kernel_of(job.gradient.dtype, work.vectors);
  return launch(where, {kernel, {blocks_for(scatter_blocks(work), 1)}, kScatterThreads, 0, execution.stream}, &work);
}

}  // namespace phasor::cuda
