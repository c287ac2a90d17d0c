// SPDX-License-Identifier: Apache-2.0
// Teams of src/cuda/teams/turn.hpp run by the host, thread after thread.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "cuda/teams/work.hpp"

namespace phasor::test {

/// Calls that were plain.
inline unsigned plain_calls = 0;

/// The last threads go first: nothing may depend on their order.
struct HostTeam {
  static constexpr int kMost = 256;
  int count;
  int threads() const { return count; }

  template <class State>
  struct PerThread {
    std::unique_ptr<std::array<State, kMost>> states = std::make_unique<std::array<State, kMost>>();
    State& of(int thread) { return (*states)[static_cast<std::size_t>(thread)]; }
  };
  template <class Body>
  void each(const Body& body) {
    for (int thread = count - 1; thread >= 0; --thread) body(thread);
  }
  template <class Body>
  void last(const Body& body) {
    each(body);
  }
  template <class Body>
  bool any(const Body& body) {
    bool one = false;
    for (int thread = count - 1; thread >= 0; --thread) one = body(thread) || one;
    return one;
  }
  template <class Knows, Pairing pairing>
  void again(const cuda::TeamWorkAt& work, const cuda::TeamPlace& place, typename cuda::TeamTurner<Knows, pairing>::Shared shared) {
    cuda::turn_slice_again<Knows, pairing>(work, place, shared, *this);
  }
};

template <class Knows, Pairing pairing>
void turn_on_host(const cuda::TeamWork& work, cuda::TeamKind kind) {
  using T = typename cuda::Element<Knows::dtype>::Value;
  constexpr cuda::TeamTuning kTuning = Knows::tuning;
  const cuda::TeamGrid grid = cuda::team_grid(work, kind);
  const job::RowSource& rows = work.rotate.job.rows;
  const cuda::TeamWorkAt at = {&work, {&rows}, rows.steps, rows.axis_of_pair};
  struct alignas(16) Shared {
    cuda::CosSin<T> values[2 * kTuning.slice_pairs];
  } shared;
  constexpr int kTeams = Knows::teams;
  HostTeam team{kTuning.team};
  for (unsigned z = 0; z < grid.blocks[2]; ++z) {
    for (unsigned y = 0; y < grid.blocks[1]; ++y) {
      for (unsigned x = 0; x < grid.blocks[0] * kTeams; ++x) {
        const unsigned block[3] = {x / kTeams, y, z};
        cuda::TeamPlace place{};
        if (!cuda::place_in_grid<Knows>(at.shape(), block, static_cast<int>(x % kTeams), place)) continue;
        cuda::turn_slice<Knows, pairing>(at, place, shared.values, team);
      }
    }
  }
}

template <DType dtype, Pairing pairing, cuda::TeamKind kind>
void turn_on_host(const cuda::RotateWork& rotate) {
  const cuda::TeamWork work = cuda::team_work(rotate, kind);
  if constexpr (cuda::knows_plain(kind)) {
    if (cuda::team_call(work, kind).plain) {
      ++plain_calls;
      return turn_on_host<cuda::TeamKnows<dtype, kind, true>, pairing>(work, kind);
    }
  }
  turn_on_host<cuda::TeamKnows<dtype, kind, false>, pairing>(work, kind);
}

template <DType dtype, Pairing pairing>
void turn_on_host(const cuda::RotateWork& work, cuda::TeamKind kind) {
  using cuda::TeamKind;
  if (kind == TeamKind::few) turn_on_host<dtype, pairing, TeamKind::few>(work);
  if (kind == TeamKind::some) turn_on_host<dtype, pairing, TeamKind::some>(work);
  if (kind == TeamKind::many) turn_on_host<dtype, pairing, TeamKind::many>(work);
  if (kind == TeamKind::most) turn_on_host<dtype, pairing, TeamKind::most>(work);
}
template <DType dtype>
void turn_on_host(const cuda::RotateWork& work, cuda::TeamKind kind) {
  work.job.read == Pairing::half ? turn_on_host<dtype, Pairing::half>(work, kind) : turn_on_host<dtype, Pairing::interleaved>(work, kind);
}
inline void turn_on_host(const cuda::RotateWork& work, cuda::TeamKind kind) {
  if (work.job.dtype == DType::f32) turn_on_host<DType::f32>(work, kind);
  if (work.job.dtype == DType::f64) turn_on_host<DType::f64>(work, kind);
  if (work.job.dtype == DType::f16) turn_on_host<DType::f16>(work, kind);
  if (work.job.dtype == DType::bf16) turn_on_host<DType::bf16>(work, kind);
}

}  // namespace phasor::test
