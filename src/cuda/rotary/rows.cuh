// SPDX-License-Identifier: Apache-2.0
// The kernels of cos_sin: a thread per value, or per pair of some rows.
#pragma once

#include <algorithm>

#include "cuda/dependent.cuh"
#include "cuda/rotary/rows.hpp"
#include "cuda/rotary/rows_doubles.hpp"
#include "cuda/tables.hpp"
#include "cuda/tuning.hpp"

namespace phasor::cuda {

constexpr unsigned kRowsThreads = 128;

using RowsParameter = Parameter<job::RowsJob>;

PHASOR_HD inline int64_t rows_threads(const job::RowsJob& job) { return job.batch * job.tokens * job.heads * row_values(job); }
inline unsigned rows_blocks(const job::RowsJob& job) {
  return static_cast<unsigned>(std::min<int64_t>((rows_threads(job) + kRowsThreads - 1) / kRowsThreads, (int64_t{1} << 31) - 1));
}

template <class T>
__global__ void __launch_bounds__(kRowsThreads) write_rows(const __grid_constant__ RowsParameter parameter) {
  const job::RowsJob& job = parameter.job;
  const int64_t step = int64_t{gridDim.x} * kRowsThreads;
  for (int64_t thread = int64_t{blockIdx.x} * kRowsThreads + threadIdx.x; thread < rows_threads(job); thread += step) {
    write_row_value<T>(job, parameter.tables.data(), thread);
  }
}

/// Out of line: it is rare.
struct RowSines {
  static __device__ __noinline__ CosSin<float> of(const Rows& rows, const RowPlace& place, int64_t pair) {
    return lane_value<float>(rows, place, pair, 0);
  }
};

template <int run>
__global__ void __launch_bounds__(kRowsThreads) write_walks(const __grid_constant__ RowsParameter parameter) {
  const job::RowsJob& job = parameter.job;
  const std::byte* tables = parameter.tables.data();
  asm("" : "+l"(tables));  // not known to be the parameter's: each lane reads another step
  const WalkShape shape = walk_shape(job.pairs, job.tokens, run);
  const int64_t step = int64_t{gridDim.x} * kRowsThreads;
  const int64_t threads = shape.items * shape.walks * job.batch;
  for (int64_t index = int64_t{blockIdx.x} * kRowsThreads + threadIdx.x; index < threads; index += step) {
    write_walk<run, RowSines>(job, {&job.rows, tables}, shape, index);
  }
}

__device__ inline DoublesThread doubles_thread() {
  constexpr int kWarps = kRowsThreads / kDoublesLanes;
  const auto warp = static_cast<int>(threadIdx.x) / kDoublesLanes;
  const auto lane = static_cast<int>(threadIdx.x) % kDoublesLanes;
  return {int64_t{blockIdx.y} * kDoublesLanes + lane, int64_t{blockIdx.x} * kWarps + warp, int64_t{blockIdx.z}};
}
/// Out of line: nothing of it takes registers of the common way.
template <int run>
__device__ __noinline__ void settle_out_of_line(const job::RowsJob* job, const std::byte* tables, int j) {
  settle_row<run>(*job, {&job->rows, tables}, doubles_thread(), j);
}

template <int run>
__global__ void __launch_bounds__(kRowsThreads, kDoublesBlocks) write_doubles(const __grid_constant__ RowsParameter parameter) {
  let_later_begin();
  const job::RowsJob& job = parameter.job;
  const std::byte* tables = parameter.tables.data();
  asm("" : "+l"(tables));  // as above
  const DoublesThread thread = doubles_thread();
  if (thread.pair >= job.pairs || thread.run * run >= job.tokens) return;
  wait_for_earlier();
  const math::u32 doubts = write_by_doubles<run>(job, {&job.rows, tables}, thread);
  each_bit(doubts, [&](int j) { settle_out_of_line<run>(&job, tables, j); });
}

inline const void* doubles_kernel(bool far) {
  return far ? reinterpret_cast<const void*>(&write_doubles<kDoublesRun>) : reinterpret_cast<const void*>(&write_doubles<1>);
}

inline const void* walks_kernel(bool far) {
  return far ? reinterpret_cast<const void*>(&write_walks<kWalk>) : reinterpret_cast<const void*>(&write_walks<1>);
}

inline const void* rows_kernel(bool wide) {
  return wide ? reinterpret_cast<const void*>(&write_rows<double>) : reinterpret_cast<const void*>(&write_rows<float>);
}

}  // namespace phasor::cuda
