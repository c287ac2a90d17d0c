// SPDX-License-Identifier: Apache-2.0
// Blocks of src/cuda/prepare/plain run by the host, thread after thread.
#pragma once

#include "cuda/host/squads.hpp"
#include "cuda/prepare/plain/work.hpp"

namespace phasor::test {

/// How many calls were plain.
inline unsigned plain_prepare_calls = 0;

struct HostPlainBlock : HostSquadBlock {
  static void depend() {}
  void plain_again(const cuda::SquadWorkAt& work, const cuda::SquadPlace& place, cuda::PlainShared& shared) {
    ++squad_rows_again;
    cuda::make_plain_row_again(work, place, shared, *this);
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

template <class Knows>
void plain_on_host(const cuda::SquadWork& work, const cuda::SquadLaunch& grid) {
  const job::RowSource& rows = work.job.turn.rows;
  const cuda::SquadWorkAt at = {&work, {&rows}, rows.steps, rows.axis_of_pair};
  cuda::PlainShared shared{};
  HostPlainBlock block{{static_cast<int>(grid.threads)}};
  for (unsigned z = 0; z < grid.blocks[2]; ++z) {
    for (unsigned y = 0; y < grid.blocks[1]; ++y) {
      for (unsigned x = 0; x < grid.blocks[0]; ++x) {
        const cuda::SquadPlace place = {static_cast<int>(z), static_cast<int>(x), static_cast<int>(y) * work.shape.group_heads};
        cuda::prepare_plain<Knows>(at, place, shared, block);
      }
    }
  }
}
template <DType dtype, int each>
void plain_on_host(const cuda::SquadWork& work, const cuda::PlainCall& call) {
  const auto with = [&]<bool norms>() {
    call.codes ? plain_on_host<cuda::PlainKnows<dtype, each, norms, true>>(work, call.launch)
               : plain_on_host<cuda::PlainKnows<dtype, each, norms, false>>(work, call.launch);
  };
  call.norms ? with.template operator()<true>() : with.template operator()<false>();
}
template <DType dtype>
void plain_on_host(const cuda::SquadWork& work, const cuda::PlainCall& call) {
  call.each == 1 ? plain_on_host<dtype, 1>(work, call) : plain_on_host<dtype, 2>(work, call);
}
/// As calls of `few` tokens are cut, or as the others.
inline void plain_on_host(cuda::SquadWork work, bool few) {
  ++plain_prepare_calls;
  const cuda::PlainCall call = cuda::plain_call(work, few);
  work.job.turn.dtype == DType::f16 ? plain_on_host<DType::f16>(work, call) : plain_on_host<DType::bf16>(work, call);
}

}  // namespace phasor::test
