// SPDX-License-Identifier: Apache-2.0
// Sinusoids put on a stream: a thread per pair of a token, or of some tokens.
#include "cuda/additive/add.hpp"
#include "cuda/additive/quick.hpp"
#include "cuda/additive/walk.hpp"
#include "cuda/copies.hpp"
#include "cuda/dependent.cuh"
#include "cuda/device.hpp"
#include "cuda/job.cuh"
#include "cuda/run.hpp"
#include "cuda/threads.hpp"

namespace phasor::cuda {
namespace {

/// Out of line: nvcc compiles them once for each type of arithmetic.
struct Sines {
  template <class T>
  static __device__ __noinline__ CosSin<T> of(const Rows& rows, int64_t pair, int64_t axis, const RowPlace& place) {
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

const void* walk_kernel_of(bool words, bool far) {
  if (!far) return reinterpret_cast<const void*>(words ? &add_walks<DType::f32, true, 1> : &add_walks<DType::f32, false, 1>);
  return reinterpret_cast<const void*>(words ? &add_walks<DType::f32, true, kWalk> : &add_walks<DType::f32, false, kWalk>);
}

// ---- 16 bits ----

struct QuickParameter {
  job::AddJob job;
  QuickShape shape;
  TableRoom tables;
};

/// Out of line: nothing of it takes registers of the common way.
struct Settle {
  template <DType dtype, QuickLayout layout>
  static __device__ __noinline__ void pair(QuickCall call, int64_t index, int which) {
    settle_pair<dtype, layout>(call, index, which);
  }
};

template <DType dtype, QuickLayout layout, int ahead>
__global__ void __launch_bounds__(kItemThreads, kQuickBlocks) add_quick(const __grid_constant__ QuickParameter parameter) {
  let_later_begin();
  const job::AddJob& job = parameter.job;
  const std::byte* tables = parameter.tables.data();
  asm("" : "+l"(tables));  // not known to be the parameter's: each lane reads another step
  const QuickCall call = {job, parameter.shape, {&job.rows, tables}, found_table(tables, job.parts)};
  const int64_t index = int64_t{blockIdx.x} * kItemThreads + threadIdx.x;
  if (index >= parameter.shape.groups * parameter.shape.runs * job.batch) return;
  wait_for_earlier();
  add_and_settle<dtype, layout, ahead, Settle>(call, index);  // a grid has threads for all that memory holds
}

template <DType dtype, QuickLayout layout>
const void* quick_kernel_of(bool ahead) {
  return reinterpret_cast<const void*>(ahead ? &add_quick<dtype, layout, kQuickAhead> : &add_quick<dtype, layout, 1>);
}
template <DType dtype>
const void* quick_kernel_of(QuickLayout layout, bool ahead) {
  if (layout == QuickLayout::one) return quick_kernel_of<dtype, QuickLayout::one>(ahead);
  return layout == QuickLayout::halves ? quick_kernel_of<dtype, QuickLayout::halves>(ahead)
                                       : quick_kernel_of<dtype, QuickLayout::neighbours>(ahead);
}

Status add_quick_on(const char* where, const job::AddJob& job, const Execution& execution) {
  const QuickLayout layout = quick_layout(job);
  QuickParameter parameter;
  parameter.job = job;
  parameter.shape = quick_shape_of(job, layout);
  const int64_t threads = quick_threads(parameter.shape, job.batch);
  const bool ahead = parameter.shape.run > 1;
  if (Status s = place_tables(where, job.device, parameter.tables, parameter.job); !s) return s;
  const void* const kernel =
      job.target.dtype == DType::f16 ? quick_kernel_of<DType::f16>(layout, ahead) : quick_kernel_of<DType::bf16>(layout, ahead);
  return launch_early(where, {kernel, {blocks_for(threads, kItemThreads)}, kItemThreads, 0, execution.stream}, &parameter);
}

// ---- Any ----

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
  const bool by_walks = walks(job);  // float32: of 16 bits are quick
  const bool far = walks_far(token_items(job), job.batch, job.tokens);
  if (job.target.out == nullptr || items == 0) return {};
  const CurrentDevice current(where, job.device);
  if (!current.status().ok()) return current.status();
  if (is_quick(job)) return add_quick_on(where, job, execution);
  Parameter<job::AddJob> parameter(job);
  if (Status s = place_tables(where, job.device, parameter.tables, parameter.job); !s) return s;
  if (by_walks) {
    const int64_t threads = walk_threads(walk_shape(token_items(job), job.tokens, far ? kWalk : 1), job.batch);
    const void* const kernel = walk_kernel_of(has_words(job), far);
    return launch(where, {kernel, {blocks_for(threads, kItemThreads)}, kItemThreads, 0, execution.stream}, &parameter);
  }
  return launch(where, {kernel_of(job.target.dtype), {blocks_for(items, kItemThreads)}, kItemThreads, 0, execution.stream}, &parameter);
}

}  // namespace phasor::cuda
