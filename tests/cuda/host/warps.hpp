// SPDX-License-Identifier: Apache-2.0
// A block whose warps are teams (src/cuda/prepare/threads.cuh), run by the host. The last lanes, teams and threads go first: nothing may
// depend on their order.
#pragma once

#include "cuda/prepare/prepare.hpp"

namespace phasor::test {

template <class Spans_>
struct HostWarp {
  using Spans = Spans_;
  using Lane = job::TeamLane;
  static constexpr bool kAlone = false;
  static int lanes() { return cuda::kTeamLanes; }
  template <class Body>
  void each(const Body& body) const {
    for (int lane = cuda::kTeamLanes - 1; lane >= 0; --lane) body(Lane{lane, cuda::kTeamLanes});
  }
};

template <class Spans>
struct HostBlockOfWarps {
  int threads;

  template <class T>
  static cuda::PairRow<T> any_row(const cuda::Rows& rows, const cuda::RowPlace& place, std::int64_t pair) {
    return cuda::pair_row<T>(rows, place, pair);
  }
  template <class Body>
  void each(const Body& body) const {
    for (int thread = threads - 1; thread >= 0; --thread) body(thread, threads);
  }
  template <class Body>
  void teams(const Body& body) const {
    HostWarp<Spans> team;
    for (int index = threads / cuda::kTeamLanes - 1; index >= 0; --index) body(team, index, threads / cuda::kTeamLanes);
  }
};

}  // namespace phasor::test
