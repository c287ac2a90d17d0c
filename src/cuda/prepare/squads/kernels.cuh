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

__device__ inline __noinline__ CosSin<float> squad_row_again(const Rows& rows, const RowPlace& place, int pair) {
  return phase_value<float>(rows, positions_of<int64_t>(rows->positions, place.batch, place.token), pair, {});
}

struct SquadBlock {
  template <class State>
  struct PerThread {
    State state;
    __device__ State& of(int /*thread*/) { return state; }
  };
  __device__ static int threads() { return static_cast<int>(blockDim.x); }
  __device__ static CosSin<float> again(const Rows& rows, const RowPlace& place, int pair) { return squad_row_again(rows, place, pair); }
  template <class Body>
  __device__ bool any(const Body& body) {
    return __syncthreads_or(body(static_cast<int>(threadIdx.x))) != 0;
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

template <DType dtype, Pairing pairing, int vectors>
__global__ void __launch_bounds__(kMostSquadThreads, vectors > 4 ? 2 : 4)
    prepare_by_squads(const __grid_constant__ SquadParameter parameter) {
  __shared__ __align__(16) CosSin<float> shared[kMostTeamPairs];
  // By a pointer that the compiler does not know to be the parameter's, as in teams/kernels.cuh.
  const std::byte* tables = parameter.tables;
  asm("" : "+l"(tables));
  const auto* const steps = reinterpret_cast<const math::Step*>(tables);
  const auto* const axes = reinterpret_cast<const std::uint8_t*>(steps + parameter.work.job.turn.rows.step_count);
  const SquadWorkAt work = {&parameter.work, {&parameter.work.job.turn.rows, tables}, steps, axes};
  const SquadPlace place = {static_cast<int>(blockIdx.z), static_cast<int>(blockIdx.x),
                            static_cast<int>(blockIdx.y) * parameter.work.shape.group_heads};
  SquadBlock block;
  prepare_heads<dtype, pairing, vectors>(work, place, shared, block);
}

template <DType dtype, Pairing pairing>
const void* squad_kernel_of(std::int64_t head_dim) {
  if (head_dim == 64) return reinterpret_cast<const void*>(&prepare_by_squads<dtype, pairing, 2>);
  if (head_dim == 128) return reinterpret_cast<const void*>(&prepare_by_squads<dtype, pairing, 4>);
  return reinterpret_cast<const void*>(&prepare_by_squads<dtype, pairing, 8>);
}
template <DType dtype>
const void* squad_kernel(Pairing pairing, std::int64_t head_dim) {
  return pairing == Pairing::half ? squad_kernel_of<dtype, Pairing::half>(head_dim)
                                  : squad_kernel_of<dtype, Pairing::interleaved>(head_dim);
}

// A file each.
const void* squad_kernel_f32(Pairing pairing, std::int64_t head_dim);
const void* squad_kernel_f16(Pairing pairing, std::int64_t head_dim);
const void* squad_kernel_bf16(Pairing pairing, std::int64_t head_dim);

}  // namespace phasor::cuda
