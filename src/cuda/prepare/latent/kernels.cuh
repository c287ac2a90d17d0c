// SPDX-License-Identifier: Apache-2.0
// The kernels of MLA's prepare_attention.
#pragma once

#include "cuda/dependent.cuh"
#include "cuda/prepare/latent/work.hpp"
#include "cuda/prepare/squads/kernels.cuh"

namespace phasor::cuda {

struct LatentParameter {
  LatentWork work;
  alignas(16) std::byte tables[kTeamTableBytes];
};

template <DType dtype>
__global__ void __launch_bounds__(kLatentThreads, kLatentBlocks) prepare_latent_token(const __grid_constant__ LatentParameter parameter) {
  __shared__ LatentShared shared;
  let_later_begin();
  const SquadWorkAt work = squad_work_at(parameter.work, parameter.tables);
  const SquadPlace place = {static_cast<int>(blockIdx.z), static_cast<int>(blockIdx.x), static_cast<int>(blockIdx.y) * kLatentThreads};
  SquadBlock block;
  wait_for_earlier();
  prepare_latent<dtype>(parameter.work.latent, work, place, shared, block);
}

// A file each.
const void* latent_kernel_f16();
const void* latent_kernel_bf16();

}  // namespace phasor::cuda
