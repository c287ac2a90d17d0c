// SPDX-License-Identifier: Apache-2.0
// The kernels of the common prepare_attention.
#pragma once

#include "cuda/prepare/squads/work.hpp"
#include "cuda/tables.hpp"

namespace phasor::cuda {

struct SquadParameter {
  SquadWork work;
  alignas(16) std::byte tables[kTeamTableBytes];
};

struct SquadBlock {
  template <class State>
  struct PerThread {
    State state;
    __device__ State& of(int /*thread*/) { return state; }
  };
  __device__ static int threads() { return static_cast<int>(blockDim.x); }
  __device__ static void wait() { __syncthreads(); }
  __device__ static __noinline__ void again(SquadWorkAt work, SquadPlace place, SquadShared& shared) {
    SquadBlock block;
    make_row_again(work, place, shared.values, block);
  }
  template <class Body>
  __device__ unsigned either(const Body& body) {
    return of_all(body(static_cast<int>(threadIdx.x)));
  }
  /// What any thread has.
  __device__ static unsigned of_all(unsigned own) {
    const bool doubts = __syncthreads_or(static_cast<int>(own & 2)) != 0;
    return (__syncthreads_or(static_cast<int>(own & 1)) != 0 ? 1U : 0U) | (doubts ? 2U : 0U);
  }
  template <class Body>
  __device__ void each(const Body& body) {
    body(static_cast<int>(threadIdx.x));
  }
  template <int count, int squad, class Held, class Numbers, class Op>
  __device__ void fold(Held& held, const Numbers& numbers, const Op& op) {
    float* const own = numbers(held.state);
#pragma unroll
    for (int apart = squad / 2; apart > 0; apart /= 2) {
#pragma unroll
      for (int i = 0; i < count; ++i) own[i] = op(own[i], __shfl_xor_sync(0xffffffff, own[i], apart));
    }
  }
};

/// What a block works on, and where.
struct SquadEntry {
  SquadWorkAt work;
  SquadPlace place;
};
__device__ __forceinline__ SquadWorkAt squad_work_at(const SquadWork& work, const std::byte* tables) {
  // By a pointer that the compiler does not know to be the parameter's, as in teams/kernels.cuh.
  asm("" : "+l"(tables));
  const auto* const steps = reinterpret_cast<const math::Step*>(tables);
  const auto* const axes = reinterpret_cast<const std::uint8_t*>(steps + work.job.turn.rows.step_count);
  return {&work, {&work.job.turn.rows, tables}, steps, axes};
}
__device__ __forceinline__ SquadEntry squad_entry(const SquadParameter& parameter) {
  return {squad_work_at(parameter.work, parameter.tables),
          {static_cast<int>(blockIdx.z), static_cast<int>(blockIdx.x), static_cast<int>(blockIdx.y) * parameter.work.shape.group_heads}};
}

template <DType dtype, Pairing pairing, int vectors, bool norms>
__global__ void __launch_bounds__(kMostSquadThreads, squad_blocks(vectors, norms))
    prepare_by_squads(const __grid_constant__ SquadParameter parameter) {
  __shared__ SquadShared shared;
  const SquadEntry at = squad_entry(parameter);
  SquadBlock block;
  prepare_heads<dtype, pairing, vectors, norms>(at.work, at.place, shared, block);
}

template <DType dtype, Pairing pairing, bool norms>
const void* squad_kernel_of(std::int64_t head_dim) {
  if (head_dim == 64) return reinterpret_cast<const void*>(&prepare_by_squads<dtype, pairing, 2, norms>);
  if (head_dim == 128) return reinterpret_cast<const void*>(&prepare_by_squads<dtype, pairing, 4, norms>);
  return reinterpret_cast<const void*>(&prepare_by_squads<dtype, pairing, 8, norms>);
}
template <DType dtype, Pairing pairing>
const void* squad_kernel_of(const SquadWork& work) {
  const std::int64_t head_dim = work.job.operands[0].head_dim;
  return work.shape.norms ? squad_kernel_of<dtype, pairing, true>(head_dim) : squad_kernel_of<dtype, pairing, false>(head_dim);
}
template <DType dtype>
const void* squad_kernel(const SquadWork& work) {
  return work.job.turn.read == Pairing::half ? squad_kernel_of<dtype, Pairing::half>(work)
                                             : squad_kernel_of<dtype, Pairing::interleaved>(work);
}

// A file each.
const void* squad_kernel_f32(const SquadWork& work);
const void* squad_kernel_f16(const SquadWork& work);
const void* squad_kernel_bf16(const SquadWork& work);

}  // namespace phasor::cuda
