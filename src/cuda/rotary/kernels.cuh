// SPDX-License-Identifier: Apache-2.0
// The kernels of rotation: a block per row, the job and its tables as one parameter.
#pragma once

#include "cuda/rotary/rotate.hpp"
#include "cuda/specs.hpp"
#include "cuda/tables.hpp"
#include "cuda/threads.hpp"

namespace phasor::cuda {

/// A block of threads as rotate.hpp wants it.
struct DeviceBlock : BlockThreads {
  template <class T>
  static __device__ __noinline__ PairRow<T> any_row(const Rows& rows, const RowPlace& place, std::int64_t pair) {
    return pair_row<T>(rows, place, pair);
  }
};

struct RotateParameter {
  RotateWork work;
  job::RowSource from;  // of a rerotation
  job::SpecList specs;  // several of them; empty: work.job.rows for every token
  TableRoom tables;
};
static_assert(sizeof(RotateParameter) <= 32764, "what CUDA 12.1 takes as parameters");

template <DType dtype, Pairing read, Pairing write, int width>
__global__ void __launch_bounds__(kThreads) rotate_rows(const __grid_constant__ RotateParameter parameter) {
  extern __shared__ __align__(16) unsigned char memory[];
  const WorkAt work = {&parameter.work, {&parameter.work.job.rows, parameter.tables.data(), &parameter.from}};
  const SpecsAt specs = specs_in(parameter.tables, parameter.specs);
  DeviceBlock block;
  const std::int64_t rows = work->job.batch * work->job.tokens;
  for (std::int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    rotate_row<dtype, read, write, width>(work_of_row(work, specs, row), row, reinterpret_cast<typename Element<dtype>::Value*>(memory),
                                          block);
  }
}

/// The kernel of a dtype and its two pairings.
template <DType dtype>
const void* rotate_kernel(Pairing read, Pairing write, bool vectors) {
  constexpr Pairing kHalf = Pairing::half;
  constexpr Pairing kInterleaved = Pairing::interleaved;
  constexpr int kWidth = static_cast<int>(kVectorBytes / bytes_of(dtype));
  const auto of = [&]<Pairing r, Pairing w>() {
    if constexpr (r == w) {
      if (vectors) return reinterpret_cast<const void*>(&rotate_rows<dtype, r, w, kWidth>);
    }
    return reinterpret_cast<const void*>(&rotate_rows<dtype, r, w, 1>);
  };
  if (read == kHalf) return write == kHalf ? of.template operator()<kHalf, kHalf>() : of.template operator()<kHalf, kInterleaved>();
  return write == kHalf ? of.template operator()<kInterleaved, kHalf>() : of.template operator()<kInterleaved, kInterleaved>();
}

// A file each, since they take nvcc long.
const void* rotate_kernel_f32(Pairing read, Pairing write, bool vectors);
const void* rotate_kernel_f64(Pairing read, Pairing write, bool vectors);
const void* rotate_kernel_f16(Pairing read, Pairing write, bool vectors);
const void* rotate_kernel_bf16(Pairing read, Pairing write, bool vectors);

}  // namespace phasor::cuda
