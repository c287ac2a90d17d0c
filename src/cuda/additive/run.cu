// SPDX-License-Identifier: Apache-2.0
// Sinusoids put on a stream: a thread per pair of a token, or of some tokens.
#include "cuda/additive/add.hpp"
#include "cuda/additive/walk.hpp"
#include "cuda/copies.hpp"
#include "cuda/device.hpp"
#include "cuda/job.cuh"
#include "cuda/run.hpp"
#include "cuda/threads.hpp"

namespace phasor::cuda {
namespace {

/// Out of line: nvcc compiles them once for each type of arithmetic.
struct Sines {
  template <class T>
  static __device__ __noinline__ CosSin<T> of(const job::RowSource& rows, int64_t pair, int64_t axis, const RowPlace& place) {
    return sinusoid<T>(rows, pair, axis, place);
  }
};

template <DType dtype>
__global__ void __launch_bounds__(kItemThreads) add_pairs(const __grid_constant__ Parameter<job::AddJob> parameter) {
  const job::AddJob& job = job_of(parameter);
  const int64_t items = token_items(job);
  const int64_t step = int64_t{gridDim.x} * kItemThreads;
  for (int64_t item = int64_t{blockIdx.x} * kItemThreads + threadIdx.x; item < job.batch * job.tokens * items; item += step) {
    add_item<dtype, Sines>(job, items, item);
  }
}

template <DType dtype, bool words, int run>
__global__ void __launch_bounds__(kItemThreads, kWalkBlocks) add_walks(const __grid_constant__ Parameter<job::AddJob> parameter) {
  const job::AddJob& job = job_of(parameter);
  const WalkShape shape = walk_shape(token_items(job), job.tokens, run);
  const int64_t step = int64_t{gridDim.x} * kItemThreads;
  const int64_t threads = shape.items * shape.walks * job.batch;
  for (int64_t index = int64_t{blockIdx.x} * kItemThreads + threadIdx.x; index < threads; index += step) {
    add_walk<dtype, words, run, Sines>(job, shape, index);
  }
}

template <DType dtype>
const void* walk_kernel_of(bool words, bool far) {
  if (!far) return reinterpret_cast<const void*>(words ? &add_walks<dtype, true, 1> : &add_walks<dtype, false, 1>);
  return reinterpret_cast<const void*>(words ? &add_walks<dtype, true, kWalk> : &add_walks<dtype, false, kWalk>);
}
const void* walk_kernel_of(DType dtype, bool words, bool far) {
  if (dtype == DType::f16) return walk_kernel_of<DType::f16>(words, far);
  return dtype == DType::bf16 ? walk_kernel_of<DType::bf16>(words, far) : walk_kernel_of<DType::f32>(words, far);
}

const void* kernel_of(DType dtype) {
  if (dtype == DType::f64) return reinterpret_cast<const void*>(&add_pairs<DType::f64>);
  if (dtype == DType::f16) return reinterpret_cast<const void*>(&add_pairs<DType::f16>);
  if (dtype == DType::bf16) return reinterpret_cast<const void*>(&add_pairs<DType::bf16>);
  return reinterpret_cast<const void*>(&add_pairs<DType::f32>);
}

}  // namespace

Status run_add(job::AddJob& job, const Execution& execution) {
  const char* const where = "add_sinusoidal";
  const int64_t items = job.batch * job.tokens * token_items(job);
  const bool by_walks = walks(job);
  const bool far = walks_far(token_items(job), job.batch, job.tokens);
  if (job.target.out == nullptr || items == 0) return {};
  const CurrentDevice current(where, job.device);
  if (!current.status().ok()) return current.status();
  Parameter<job::AddJob> parameter(job);
  if (Status s = place_tables(where, job.device, parameter.tables, parameter.job); !s) return s;
  if (by_walks) {
    const int64_t threads = walk_threads(walk_shape(token_items(job), job.tokens, far ? kWalk : 1), job.batch);
    const void* const kernel = walk_kernel_of(job.target.dtype, has_words(job), far);
    return launch(where, {kernel, {blocks_for(threads, kItemThreads)}, kItemThreads, 0, execution.stream}, &parameter);
  }
  return launch(where, {kernel_of(job.target.dtype), {blocks_for(items, kItemThreads)}, kItemThreads, 0, execution.stream}, &parameter);
}

}  // namespace phasor::cuda
