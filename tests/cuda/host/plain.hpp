// SPDX-License-Identifier: Apache-2.0
// Blocks of src/cuda/prepare/plain and columns run by the host, thread after thread.
#pragma once

#include <cstring>
#include <map>
#include <tuple>

#include "cuda/host/squads.hpp"
#include "cuda/prepare/columns/work.hpp"
#include "cuda/prepare/plain/work.hpp"

namespace phasor::test {

/// How many calls were plain.
inline unsigned plain_prepare_calls = 0;
/// Of them, by blocks that had many tokens.
inline unsigned walking_calls = 0;
/// And by each kernel: its dtype, heads of a thread, norms, codes, whether it walks.
inline std::map<std::tuple<DType, int, bool, bool, bool>, unsigned> plain_kernels;

struct HostPlainBlock : HostSquadBlock {
  static void depend() {}
  void plain_again(const cuda::SquadWorkAt& work, const cuda::SquadPlace& first, int rows_count, cuda::PlainShared* rows) {
    ++squad_rows_again;
    cuda::make_plain_rows_again(work, first, rows_count, rows, *this);
  }
  template <class Has, class Body>
  void in_warps_of(const Has& /*has*/, const Body& body) {
    body();
  }
  /// Numbers that all threads had before it.
  template <int apart, int numbers_each, class Held, class Numbers>
  void swap(Held& held, const Numbers& numbers) {
    using Number = std::remove_pointer_t<decltype(numbers(held.of(0)))>;
    std::vector<std::array<Number, numbers_each>> before(static_cast<std::size_t>(count));
    for (int t = 0; t < count; ++t) std::copy_n(numbers(held.of(t)), numbers_each, before[static_cast<std::size_t>(t)].begin());
    for (int t = 0; t < count; ++t) std::copy_n(before[static_cast<std::size_t>(t ^ apart)].begin(), numbers_each, numbers(held.of(t)));
  }
};

template <class Machine, class Knows>
void plain_on_host(const cuda::SquadWork& work, const cuda::SquadLaunch& grid) {
  ++plain_kernels[{Knows::dtype, Knows::each, Knows::norms, Knows::codes, Knows::walks}];
  const job::RowSource& rows = work.job.turn.rows;
  const cuda::SquadWorkAt at = {&work, {&rows}, rows.steps, rows.axis_of_pair};
  cuda::PlainWalk walk;
  for (unsigned z = 0; z < grid.blocks[2]; ++z) {
    for (unsigned y = 0; y < grid.blocks[1]; ++y) {
      for (unsigned x = 0; x < grid.blocks[0]; ++x) {
        const cuda::SquadPlace place = {static_cast<int>(z), static_cast<int>(x), static_cast<int>(y) * work.shape.group_heads};
        walk = {};
        Machine::plain(static_cast<int>(grid.threads), [&](auto& block) {
          if constexpr (Knows::walks) {
            cuda::walk_plain<Knows>(at, place, static_cast<int>(grid.blocks[0]), walk, block);
          } else {
            cuda::prepare_plain<Knows>({at, place, walk.rows[0][0]}, block);
          }
        });
      }
    }
  }
}
template <class Machine, DType dtype, bool norms, bool codes>
void plain_on_host(const cuda::SquadWork& work, const cuda::PlainCall& call) {
  if (call.walks) return plain_on_host<Machine, cuda::PlainKnows<dtype, 2, norms, codes, true>>(work, call.launch);
  call.each == 1 ? plain_on_host<Machine, cuda::PlainKnows<dtype, 1, norms, codes>>(work, call.launch)
                 : plain_on_host<Machine, cuda::PlainKnows<dtype, 2, norms, codes>>(work, call.launch);
}
template <class Machine, DType dtype, bool norms>
void plain_on_host(const cuda::SquadWork& work, const cuda::PlainCall& call) {
  call.codes ? plain_on_host<Machine, dtype, norms, true>(work, call) : plain_on_host<Machine, dtype, norms, false>(work, call);
}
template <class Machine, DType dtype>
void plain_on_host(const cuda::SquadWork& work, const cuda::PlainCall& call) {
  call.norms ? plain_on_host<Machine, dtype, true>(work, call) : plain_on_host<Machine, dtype, false>(work, call);
}
/// As calls of `few` tokens are cut, or as the others, by so many blocks that walk.
template <class Machine>
void plain_on_host(cuda::SquadWork work, bool few, std::int64_t walkers) {
  ++plain_prepare_calls;
  cuda::PlainCall call = cuda::plain_call(work, few);
  if (walkers == 0) walkers = plain_prepare_calls % 4;
  if (call.each == 2 && walkers != 0) call = cuda::walking(call, walkers);
  walking_calls += call.walks ? 1 : 0;
  work.job.turn.dtype == DType::f16 ? plain_on_host<Machine, DType::f16>(work, call) : plain_on_host<Machine, DType::bf16>(work, call);
}

// ---- Values by channels, which go behind the others of such calls ----

/// Calls with values by channels; eight neighbours that were written at once, and blocks in which some tokens were written one by one.
inline unsigned column_calls = 0;
inline unsigned column_cells = 0;
inline unsigned columns_alone = 0;

struct HostColumnBlock : HostSquadBlock {
  static void fetch(cuda::Words* to, const std::byte* from) { std::memcpy(to, from, sizeof(*to)); }
  static void arrive() {}
};

template <class Machine>
void columns_on_host(const job::PrepareJob& job) {
  ++column_calls;
  const cuda::ColumnWork work = cuda::column_work(job);
  const cuda::SquadLaunch grid = cuda::column_launch(work);
  const auto shared = std::make_unique<cuda::ColumnShared>();
  for (unsigned z = 0; z < grid.blocks[2]; ++z) {
    for (unsigned y = 0; y < grid.blocks[1]; ++y) {
      for (unsigned x = 0; x < grid.blocks[0]; ++x) {
        std::memset(static_cast<void*>(shared.get()), 0x7f, sizeof(*shared));
        const cuda::SquadPlace place = {static_cast<int>(z), static_cast<int>(x) * cuda::kColumnTokens, static_cast<int>(y)};
        Machine::columns(static_cast<int>(grid.threads), [&](auto& block) {
          work.dtype == DType::f16 ? cuda::put_columns<DType::f16>(work, place, *shared, block)
                                   : cuda::put_columns<DType::bf16>(work, place, *shared, block);
        });
        bool alone = false;
        for (const int leader : shared->leaders) column_cells += leader >= 0 ? 1 : 0;
        for (const bool one : shared->alone) alone = alone || one;
        columns_alone += alone ? 1 : 0;
      }
    }
  }
}

}  // namespace phasor::test
