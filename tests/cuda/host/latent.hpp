// SPDX-License-Identifier: Apache-2.0
// Blocks of src/cuda/prepare/latent run by the host, thread after thread.
#pragma once

#include "cuda/host/squads.hpp"
#include "cuda/prepare/latent/work.hpp"

namespace phasor::test {

/// How many calls were made ready so.
inline unsigned latent_calls = 0;

template <DType dtype>
void latent_on_host(const cuda::LatentWork& work) {
  const cuda::SquadLaunch grid = cuda::latent_launch(work);
  const job::RowSource& rows = work.job.turn.rows;
  const cuda::SquadWorkAt at = {&work, {&rows}, rows.steps, rows.axis_of_pair};
  HostSquadBlock block{static_cast<int>(grid.threads)};
  for (unsigned z = 0; z < grid.blocks[2]; ++z) {
    for (unsigned y = 0; y < grid.blocks[1]; ++y) {
      for (unsigned x = 0; x < grid.blocks[0]; ++x) {
        cuda::LatentShared shared{};
        const cuda::SquadPlace place = {static_cast<int>(z), static_cast<int>(x), static_cast<int>(y) * cuda::kLatentThreads};
        cuda::prepare_latent<dtype>(work.latent, at, place, shared, block);
      }
    }
  }
}
inline void latent_on_host(const job::PrepareJob& job) {
  ++latent_calls;
  const cuda::LatentWork work = cuda::latent_work(job);
  job.turn.dtype == DType::f16 ? latent_on_host<DType::f16>(work) : latent_on_host<DType::bf16>(work);
}

}  // namespace phasor::test
