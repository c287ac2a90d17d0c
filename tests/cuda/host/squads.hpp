// SPDX-License-Identifier: Apache-2.0
// Blocks of src/cuda/prepare/squads run by the host, thread after thread or (emulated_prepare.hpp) as contexts of their own: a Machine says
// how. Machine::squads(threads, body) is body(block) of every block; plain, columns and latent likewise.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "cuda/prepare/squads/work.hpp"

namespace phasor::test {

/// How many calls squads have made ready, with norms and without.
inline unsigned squad_calls = 0;
inline unsigned squad_calls_with_norms = 0;
inline unsigned squad_calls_without = 0;
/// And how often a row was in doubt.
inline unsigned squad_rows_again = 0;

/// The last threads go first: nothing may depend on their order.
struct HostSquadBlock {
  int count;
  int threads() const { return count; }
  static void wait() {}
  void again(const cuda::SquadWorkAt& work, const cuda::SquadPlace& place, cuda::SquadShared& shared) {
    ++squad_rows_again;
    cuda::make_row_again(work, place, shared.values, *this);
  }
  template <class State>
  struct PerThread {
    std::unique_ptr<std::array<State, cuda::kMostSquadThreads>> states = std::make_unique<std::array<State, cuda::kMostSquadThreads>>();
    State& of(int thread) { return (*states)[static_cast<std::size_t>(thread)]; }
  };
  template <class Body>
  void each(const Body& body) {
    for (int thread = count - 1; thread >= 0; --thread) body(thread);
  }
  template <class Body>
  unsigned either(const Body& body) {
    unsigned bits = 0;
    for (int thread = count - 1; thread >= 0; --thread) bits |= body(thread);
    return bits;
  }
  /// Each step reads what all threads had before it.
  template <int numbers_each, int squad, class Held, class Numbers, class Op>
  void fold(Held& held, const Numbers& numbers, const Op& op) {
    for (int apart = squad / 2; apart > 0; apart /= 2) {
      std::vector<std::array<float, numbers_each>> before(static_cast<std::size_t>(count));
      for (int t = 0; t < count; ++t) {
        for (int i = 0; i < numbers_each; ++i) before[static_cast<std::size_t>(t)][static_cast<std::size_t>(i)] = numbers(held.of(t))[i];
      }
      for (int t = 0; t < count; ++t) {
        for (int i = 0; i < numbers_each; ++i) {
          numbers(held.of(t))[i] = op(before[static_cast<std::size_t>(t)][static_cast<std::size_t>(i)],
                                      before[static_cast<std::size_t>(t ^ apart)][static_cast<std::size_t>(i)]);
        }
      }
    }
  }
};

template <class Machine, DType dtype, Pairing pairing, int vectors, bool norms>
void squads_on_host(const cuda::SquadWork& work) {
  const cuda::SquadLaunch grid = cuda::squad_launch(work);
  const job::RowSource& rows = work.job.turn.rows;
  const cuda::SquadWorkAt at = {&work, {&rows}, rows.steps, rows.axis_of_pair};
  cuda::SquadShared shared;
  for (unsigned z = 0; z < grid.blocks[2]; ++z) {
    for (unsigned y = 0; y < grid.blocks[1]; ++y) {
      for (unsigned x = 0; x < grid.blocks[0]; ++x) {
        const cuda::SquadPlace place = {static_cast<int>(z), static_cast<int>(x), static_cast<int>(y) * work.shape.group_heads};
        shared = {};
        Machine::squads(static_cast<int>(grid.threads),
                        [&](auto& block) { cuda::prepare_heads<dtype, pairing, vectors, norms>(at, place, shared, block); });
      }
    }
  }
}
template <class Machine, DType dtype, Pairing pairing>
void squads_on_host(const cuda::SquadWork& work) {
  const std::int64_t width = work.job.operands[0].head_dim;
  const auto of_width = [&]<bool norms>() {
    if (width == 64) squads_on_host<Machine, dtype, pairing, 2, norms>(work);
    if (width == 128) squads_on_host<Machine, dtype, pairing, 4, norms>(work);
    if (width == 256) squads_on_host<Machine, dtype, pairing, 8, norms>(work);
  };
  work.shape.norms ? of_width.template operator()<true>() : of_width.template operator()<false>();
}
template <class Machine, DType dtype>
void squads_on_host(const cuda::SquadWork& work) {
  work.job.turn.read == Pairing::half ? squads_on_host<Machine, dtype, Pairing::half>(work)
                                      : squads_on_host<Machine, dtype, Pairing::interleaved>(work);
}
template <class Machine>
void squads_on_host(const job::PrepareJob& job) {
  ++squad_calls;
  const cuda::SquadWork work = cuda::squad_work(job);
  (work.shape.norms ? squad_calls_with_norms : squad_calls_without) += 1;
  if (job.turn.dtype == DType::f32) squads_on_host<Machine, DType::f32>(work);
  if (job.turn.dtype == DType::f16) squads_on_host<Machine, DType::f16>(work);
  if (job.turn.dtype == DType::bf16) squads_on_host<Machine, DType::bf16>(work);
}

}  // namespace phasor::test
