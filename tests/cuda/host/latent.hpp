// SPDX-License-Identifier: Apache-2.0
// Blocks of src/cuda/prepare/latent run by the host, thread after thread.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <tuple>
#include <vector>

#include "cuda/host/squads.hpp"
#include "cuda/prepare/latent/plain_work.hpp"
#include "cuda/prepare/latent/work.hpp"

namespace phasor::test {

/// How many calls were made ready so, of each cut, and of how many sinks the last group of a scale has fewer channels.
inline unsigned latent_calls = 0;
inline std::array<unsigned, 3> latent_cuts = {};
inline unsigned latent_partial_groups = 0;
/// Of them, by kernels of plain calls, of each cut; and by each kernel: its dtype, rounds, codes.
inline std::array<unsigned, 3> plain_latent_cuts = {};
inline std::map<std::tuple<DType, int, bool>, unsigned> plain_latent_kernels;

/// A warp; the last lanes go first. What is read is there at once, as it may be.
struct HostLatentWarp {
  static int threads() { return cuda::kLatentLanes; }
  static void wait() {}
  static void arrive() {}
  static void depend() {}
  template <class State>
  struct PerThread {
    std::array<State, cuda::kLatentLanes> states;
    State& of(int lane) { return states[static_cast<std::size_t>(lane)]; }
  };
  /// Numbers that all lanes had before it.
  template <int apart, int count, class Held, class Numbers>
  void swap(Held& held, const Numbers& numbers) {
    for (int lane = 0; lane < cuda::kLatentLanes; ++lane) {
      if (const int other = lane ^ apart; lane < other)
        std::swap_ranges(numbers(held.of(lane)), numbers(held.of(lane)) + count, numbers(held.of(other)));
    }
  }
  static void fetch(cuda::Words* to, const std::byte* from) { std::memcpy(to, from, sizeof(*to)); }
  void again(const cuda::SquadWorkAt& work, const cuda::SquadPlace& place, cuda::CosSin<float>* values) {
    ++squad_rows_again;
    cuda::make_row_again(work, place, values, *this);
  }
  template <class Body>
  void each(const Body& body) {
    for (int lane = cuda::kLatentLanes - 1; lane >= 0; --lane) body(lane);
  }
  template <class Body>
  unsigned either(const Body& body) {
    unsigned bits = 0;
    each([&](int lane) { bits |= body(lane); });
    return bits;
  }
  template <class Body>
  float sum(const Body& body) {
    float sums[math::kNormPartials];
    each([&](int lane) { sums[lane] = body(lane); });
    return math::fold_partials(sums);
  }
};

template <class Machine, DType dtype>
void latent_on_host(const cuda::LatentWork& work) {
  const cuda::LatentLaunch launch = cuda::latent_launch(work);
  const unsigned warps = launch.grid.threads / cuda::kLatentLanes;
  const job::RowSource& rows = work.job.turn.rows;
  const cuda::SquadWorkAt at = {&work, {&rows}, rows.steps, rows.axis_of_pair};
  const auto tokens = static_cast<unsigned>(work.job.turn.tokens);
  std::vector<cuda::Words> shared(launch.shared_bytes / sizeof(cuda::Words));
  auto* const first = reinterpret_cast<std::byte*>(shared.data());
  for (unsigned z = 0; z < launch.grid.blocks[2]; ++z) {
    for (unsigned y = 0; y < launch.grid.blocks[1]; ++y) {
      for (unsigned x = 0; x < launch.grid.blocks[0]; ++x) {
        std::fill(shared.begin(), shared.end(), cuda::Words{{0x7fc0, 1, 2, 3}});
        Machine::latent(static_cast<int>(warps), [&](auto& warp, int index) {
          const unsigned token = x * warps + static_cast<unsigned>(index);
          if (token >= tokens) return;
          const cuda::LatentPlace place = {{static_cast<int>(z), static_cast<int>(token), 0}, static_cast<int>(y)};
          std::byte* const own = first + static_cast<unsigned>(index) * work.latent.warp_bytes;
          cuda::prepare_latent<dtype>(work.latent, at, place, cuda::latent_memory(work.latent, work.shape.pairs, own), warp);
        });
      }
    }
  }
}

template <class Machine, class Knows>
void plain_latent_on_host(const cuda::PlainLatentWork& work, const cuda::PlainLatentCall& call) {
  ++plain_latent_kernels[{Knows::dtype, Knows::rounds, Knows::codes}];
  const cuda::SquadLaunch& grid = call.launch;
  const unsigned warps = grid.threads / cuda::kLatentLanes;
  const job::RowSource& rows = work.squads.job.turn.rows;
  const cuda::SquadWorkAt at = {&work.squads, {&rows}, rows.steps, rows.axis_of_pair};
  std::vector<cuda::PlainLatentMemory> shared(warps);
  for (unsigned z = 0; z < grid.blocks[2]; ++z) {
    for (unsigned y = 0; y < grid.blocks[1]; ++y) {
      for (unsigned x = 0; x < grid.blocks[0]; ++x) {
        std::memset(static_cast<void*>(shared.data()), 0x7f, shared.size() * sizeof(shared[0]));
        Machine::latent(static_cast<int>(warps), [&](auto& warp, int index) {
          const unsigned token = x * warps + static_cast<unsigned>(index);
          if (token >= static_cast<unsigned>(work.plain.tokens)) return;
          const cuda::SquadPlace place = {static_cast<int>(z), static_cast<int>(token), 0};
          cuda::prepare_plain_latent<Knows>({work.plain, at, place, static_cast<int>(y), shared[static_cast<std::size_t>(index)]}, warp);
        });
      }
    }
  }
}
template <class Machine, DType dtype, int rounds>
void plain_latent_on_host(const cuda::PlainLatentWork& work, const cuda::PlainLatentCall& call) {
  call.codes ? plain_latent_on_host<Machine, cuda::PlainLatentKnows<dtype, rounds, true>>(work, call)
             : plain_latent_on_host<Machine, cuda::PlainLatentKnows<dtype, rounds, false>>(work, call);
}
template <class Machine, DType dtype>
void plain_latent_on_host(const cuda::PlainLatentWork& work, const cuda::PlainLatentCall& call) {
  call.rounds == 1 ? plain_latent_on_host<Machine, dtype, 1>(work, call)
                   : plain_latent_on_host<Machine, dtype, cuda::kManyTurnedRounds>(work, call);
}
template <class Machine>
void plain_latent_on_host(const job::PrepareJob& job) {
  constexpr std::int64_t kCutAs[] = {1, cuda::kFewPlainLatentTokens + 1, cuda::kSomePlainLatentTokens + 1};  // few tokens, some, most
  const unsigned cut = ++latent_calls % std::size(kCutAs);
  ++plain_latent_cuts[cut];
  cuda::PlainLatentWork work = cuda::plain_latent_work(job);
  const cuda::PlainLatentCall call = cuda::plain_latent_call(work, kCutAs[cut]);
  job.turn.dtype == DType::f16 ? plain_latent_on_host<Machine, DType::f16>(work, call)
                               : plain_latent_on_host<Machine, DType::bf16>(work, call);
}

template <class Machine>
void latent_on_host(const job::PrepareJob& job) {
  cuda::LatentWork work = cuda::latent_work(job);
  constexpr std::int64_t kCutAs[] = {1, cuda::kFewLatentTokens + 1, cuda::kSomeLatentTokens + 1};  // few tokens, some, most
  const unsigned cut = ++latent_calls % std::size(kCutAs);
  ++latent_cuts[cut];
  for (int s = 0; s < work.latent.sink_count; ++s) {
    const cuda::LatentSink& sink = work.latent.sinks[s];
    if (sink.groups > 0 && sink.count % sink.group_vectors != 0) ++latent_partial_groups;
  }
  cuda::cut_latent(work, kCutAs[cut]);
  job.turn.dtype == DType::f16 ? latent_on_host<Machine, DType::f16>(work) : latent_on_host<Machine, DType::bf16>(work);
}

}  // namespace phasor::test
