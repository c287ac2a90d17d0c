// SPDX-License-Identifier: Apache-2.0
// The kernels of plain calls of prepare_attention.
#pragma once

#include "cuda/dependent.cuh"
#include "cuda/prepare/plain/work.hpp"
#include "cuda/prepare/squads/kernels.cuh"

namespace phasor::cuda {

struct PlainBlock : SquadBlock {
  bool followed;
  explicit __device__ PlainBlock(const SquadParameter& parameter) : followed(parameter.work.shape.followed) {
    if (!followed) let_later_begin();
  }
  /// A launch that does not wait for this one's end begins when this one's wait has ended.
  __device__ void depend() const {
    wait_for_earlier();
    if (followed) let_later_begin();
  }
  __device__ static __noinline__ void plain_again(SquadWorkAt work, SquadPlace first, int count, PlainShared* rows) {
    SquadBlock block;
    make_plain_rows_again(work, first, count, rows, block);
  }
  /// One barrier where nothing was seen.
  template <class Body>
  __device__ unsigned either(const Body& body) {
    const unsigned own = body(static_cast<int>(threadIdx.x));
    return __syncthreads_or(static_cast<int>(own)) == 0 ? 0 : of_all(own);
  }
  template <class Has, class Body>
  __device__ void in_warps_of(const Has& has, const Body& body) {
    if (__any_sync(0xffffffff, has(static_cast<int>(threadIdx.x))) != 0) body();
  }
  template <int apart, int count, class Held, class Numbers>
  __device__ void swap(Held& held, const Numbers& numbers) {
    auto* const own = numbers(held.state);
#pragma unroll
    for (int i = 0; i < count; ++i) own[i] = __shfl_xor_sync(0xffffffff, own[i], apart);
  }
};

/// Blocks of a multiprocessor at a time: how many registers a thread may have.
PHASOR_HD constexpr int plain_blocks(int each) { return each == 1 ? 8 : 6; }

template <DType dtype, int each, bool norms, bool codes>
__global__ void __launch_bounds__(each == 1 ? kFewPlainThreads : kMostPlainThreads, plain_blocks(each))
    prepare_plainly(const __grid_constant__ SquadParameter parameter) {
  using Knows = PlainKnows<dtype, each, norms, codes>;
  __shared__ PlainShared shared;
  PlainBlock block(parameter);
  const SquadEntry at = squad_entry(parameter);
  prepare_plain<Knows>({at.work, at.place, shared}, block);
}
/// Blocks that have some tokens together.
template <DType dtype, bool norms, bool codes>
__global__ void __launch_bounds__(kMostPlainThreads, kWalkPlainBlocks) walk_plainly(const __grid_constant__ SquadParameter parameter) {
  using Knows = PlainKnows<dtype, 2, norms, codes, true>;
  __shared__ PlainWalk shared;
  PlainBlock block(parameter);
  const SquadEntry at = squad_entry(parameter);
  walk_plain<Knows>(at.work, at.place, static_cast<int>(gridDim.x), shared, block);
}

template <DType dtype, bool norms, bool codes>
const void* plain_kernel_of(const PlainCall& call) {
  if (call.walks) return reinterpret_cast<const void*>(&walk_plainly<dtype, norms, codes>);
  return call.each == 1 ? reinterpret_cast<const void*>(&prepare_plainly<dtype, 1, norms, codes>)
                        : reinterpret_cast<const void*>(&prepare_plainly<dtype, 2, norms, codes>);
}
template <DType dtype, bool norms>
const void* plain_kernel_of(const PlainCall& call) {
  return call.codes ? plain_kernel_of<dtype, norms, true>(call) : plain_kernel_of<dtype, norms, false>(call);
}
template <DType dtype>
const void* plain_kernel(const PlainCall& call) {
  return call.norms ? plain_kernel_of<dtype, true>(call) : plain_kernel_of<dtype, false>(call);
}

// A file each.
const void* plain_kernel_f16(const PlainCall& call);
const void* plain_kernel_bf16(const PlainCall& call);

}  // namespace phasor::cuda
