// SPDX-License-Identifier: Apache-2.0
// A block of threads whose warps are teams, as job/prepare/token.hpp and backward_token.hpp want them.
#pragma once

#include "cuda/prepare/prepare.hpp"

namespace phasor::cuda {

/// A warp; `Spans_` has the steps that it does.
template <class Spans_>
struct WarpTeam {
  using Spans = Spans_;
  using Lane = job::TeamLane;
  static constexpr bool kAlone = false;
  static PHASOR_HD int lanes() { return kTeamLanes; }
  template <class Body>
  __device__ void each(const Body& body) const {
    body(Lane{static_cast<int>(threadIdx.x) % kTeamLanes, kTeamLanes});
    __syncwarp();
  }
};

template <class Spans>
struct BlockOfWarps {
  template <class T>
  static __device__ __noinline__ PairRow<T> any_row(const Rows& rows, const RowPlace& place, std::int64_t pair) {
    return pair_row<T>(rows, place, pair);
  }
  template <class Body>
  __device__ void each(const Body& body) const {
    body(static_cast<int>(threadIdx.x), static_cast<int>(blockDim.x));
    __syncthreads();
  }
  template <class Body>
  __device__ void teams(const Body& body) const {
    WarpTeam<Spans> team;
    body(team, static_cast<int>(threadIdx.x) / kTeamLanes, static_cast<int>(blockDim.x) / kTeamLanes);
    __syncthreads();
  }
};

}  // namespace phasor::cuda
