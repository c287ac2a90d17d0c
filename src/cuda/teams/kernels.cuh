// SPDX-License-Identifier: Apache-2.0
// The kernels of the common rotation: teams that are warps, for few tokens (nobody waits for another warp), and teams that are blocks.
#pragma once

#include "cuda/dependent.cuh"
#include "cuda/teams/turn.hpp"
#include "cuda/teams/work.hpp"

namespace phasor::cuda {

struct TeamParameter {
  TeamWork work;
  alignas(16) std::byte tables[kTeamTableBytes];
};

/// turn_slice_again out of line, so that nothing lives on over it: the common way keeps its registers.
template <class Knows, Pairing pairing, class Team>
__device__ __noinline__ void turn_out_of_line(TeamWorkAt work, TeamPlace place, typename TeamTurner<Knows, pairing>::Shared shared) {
  Team team;
  turn_slice_again<Knows, pairing>(work, place, shared, team);
}

template <class State>
struct OwnState {
  State state;
  __device__ State& of(int /*thread*/) { return state; }
};

struct DeviceWarp {
  template <class State>
  using PerThread = OwnState<State>;
  __device__ int threads() const { return 32; }
  template <class Body>
  __device__ void last(const Body& body) {
    body(static_cast<int>(threadIdx.x & 31));
  }
  template <class Body>
  __device__ void each(const Body& body) {
    last(body);
    __syncwarp();
  }
  template <class Body>
  __device__ bool any(const Body& body) {
    const bool one = body(static_cast<int>(threadIdx.x & 31));
    const bool any = __any_sync(0xffffffff, one) != 0;
    __syncwarp();
    return any;
  }
  template <class Knows, Pairing pairing>
  __device__ void again(const TeamWorkAt& work, const TeamPlace& place, typename TeamTurner<Knows, pairing>::Shared shared) {
    turn_out_of_line<Knows, pairing, DeviceWarp>(work, place, shared);
  }
};
struct DeviceBlockTeam {
  template <class State>
  using PerThread = OwnState<State>;
  __device__ int threads() const { return static_cast<int>(blockDim.x); }
  template <class Body>
  __device__ void last(const Body& body) {
    body(static_cast<int>(threadIdx.x));
  }
  template <class Body>
  __device__ void each(const Body& body) {
    last(body);
    __syncthreads();
  }
  template <class Body>
  __device__ bool any(const Body& body) {
    return __syncthreads_or(body(static_cast<int>(threadIdx.x))) != 0;
  }
  template <class Knows, Pairing pairing>
  __device__ void again(const TeamWorkAt& work, const TeamPlace& place, typename TeamTurner<Knows, pairing>::Shared shared) {
    turn_out_of_line<Knows, pairing, DeviceBlockTeam>(work, place, shared);
  }
};

template <DType dtype, Pairing pairing, TeamKind kind, bool plain>
__global__ void __launch_bounds__(tuning_of(kind, dtype).threads, tuning_of(kind, dtype).least_blocks)
    turn_by_teams(const __grid_constant__ TeamParameter parameter) {
  using T = typename Element<dtype>::Value;
  using Knows = TeamKnows<dtype, kind, plain>;
  constexpr int kTeams = Knows::teams;
  __shared__ __align__(16) CosSin<T> shared[kTeams][2 * Knows::tuning.slice_pairs];
  let_later_begin();
  // By a pointer that the compiler does not know to be the parameter's: each lane reads another step, and constant memory gives one
  // address at a time.
  const std::byte* tables = parameter.tables;
  asm("" : "+l"(tables));
  const auto* const steps = reinterpret_cast<const math::Step*>(tables);  // pack_tables puts them first, then the axes
  const auto* const axes = reinterpret_cast<const std::uint8_t*>(steps + parameter.work.rotate.job.rows.step_count);
  const TeamWorkAt work = {&parameter.work, {&parameter.work.rotate.job.rows, tables}, steps, axes};
  const unsigned block[3] = {blockIdx.x, blockIdx.y, blockIdx.z};
  const int index = kTeams > 1 ? static_cast<int>(threadIdx.x >> 5) : 0;
  TeamPlace place;
  if (!place_in_grid<Knows>(work.shape(), block, index, place)) return;
  std::conditional_t<(kTeams > 1), DeviceWarp, DeviceBlockTeam> team;
  wait_for_earlier();
  turn_slice<Knows, pairing>(work, place, shared[index], team);
}

/// The kernel of a dtype, for its pairing and kind of team.
template <DType dtype, TeamKind kind, bool plain>
const void* team_kernel_of(Pairing pairing) {
  return pairing == Pairing::half ? reinterpret_cast<const void*>(&turn_by_teams<dtype, Pairing::half, kind, plain>)
                                  : reinterpret_cast<const void*>(&turn_by_teams<dtype, Pairing::interleaved, kind, plain>);
}
template <DType dtype, TeamKind kind>
const void* team_kernel_of(const TeamCall& call) {
  if constexpr (knows_plain(kind)) {
    if (call.plain) return team_kernel_of<dtype, kind, true>(call.pairing);
  }
  return team_kernel_of<dtype, kind, false>(call.pairing);
}
template <DType dtype>
const void* team_kernel(const TeamCall& call) {
  if (call.kind == TeamKind::few) return team_kernel_of<dtype, TeamKind::few>(call);
  if constexpr (dtype != DType::f64) {
    if (call.kind == TeamKind::some) return team_kernel_of<dtype, TeamKind::some>(call);
    if (call.kind == TeamKind::many) return team_kernel_of<dtype, TeamKind::many>(call);
  }
  return team_kernel_of<dtype, TeamKind::most>(call);
}

// A file each.
const void* team_kernel_f32(const TeamCall& call);
const void* team_kernel_f64(const TeamCall& call);
const void* team_kernel_f16(const TeamCall& call);
const void* team_kernel_bf16(const TeamCall& call);

}  // namespace phasor::cuda
