// SPDX-License-Identifier: Apache-2.0
// Blocks of src/cuda/prepare/columns run by the host, thread after thread.
#pragma once

#include <cstring>

#include "cuda/host/squads.hpp"
#include "cuda/prepare/columns/work.hpp"

namespace phasor::test {

/// Calls with values by channels; eight neighbours that were written at once, and blocks in which some tokens were written one by one.
inline unsigned column_calls = 0;
inline unsigned column_cells = 0;
inline unsigned columns_alone = 0;

struct HostColumnBlock : HostSquadBlock {
  static void fetch(cuda::Words* to, const std::byte* from) { std::memcpy(to, from, sizeof(*to)); }
  static void arrive() {}
};

inline void columns_on_host(const job::PrepareJob& job) {
  ++column_calls;
  const cuda::ColumnWork work = cuda::column_work(job);
  const cuda::SquadLaunch grid = cuda::column_launch(work);
  HostColumnBlock block{{static_cast<int>(grid.threads)}};
  const auto shared = std::make_unique<cuda::ColumnShared>();
  for (unsigned z = 0; z < grid.blocks[2]; ++z) {
    for (unsigned y = 0; y < grid.blocks[1]; ++y) {
      for (unsigned x = 0; x < grid.blocks[0]; ++x) {
        std::memset(static_cast<void*>(shared.get()), 0x7f, sizeof(*shared));
        const cuda::SquadPlace place = {static_cast<int>(z), static_cast<int>(x) * cuda::kColumnTokens, static_cast<int>(y)};
        work.dtype == DType::f16 ? cuda::put_columns<DType::f16>(work, place, *shared, block)
                                 : cuda::put_columns<DType::bf16>(work, place, *shared, block);
        bool alone = false;
        for (const int leader : shared->leaders) column_cells += leader >= 0 ? 1 : 0;
        for (const bool one : shared->alone) alone = alone || one;
        columns_alone += alone ? 1 : 0;
      }
    }
  }
}

}  // namespace phasor::test
