// SPDX-License-Identifier: Apache-2.0
// The kernels of MLA's prepare_attention.
#pragma once

#include "cuda/dependent.cuh"
#include "cuda/prepare/fetch.cuh"
#include "cuda/prepare/latent/work.hpp"
#include "cuda/prepare/squads/kernels.cuh"

namespace phasor::cuda {

struct LatentParameter {
  LatentWork work;
  alignas(16) std::byte tables[kTeamTableBytes];
};

struct LatentWarp {
  __device__ static int lane() { return static_cast<int>(threadIdx.x) % kLatentLanes; }
  __device__ static int threads() { return kLatentLanes; }
  __device__ static void wait() { __syncwarp(); }
  __device__ static __noinline__ void again(SquadWorkAt work, SquadPlace place, CosSin<float>* values) {
    LatentWarp warp;
    make_row_again(work, place, values, warp);
  }
  template <class Body>
  __device__ void each(const Body& body) {
    body(lane());
  }
  template <class Body>
  __device__ unsigned either(const Body& body) {
    const unsigned own = body(lane());
    return (__any_sync(0xffffffff, (own & 1) != 0) != 0 ? 1U : 0U) | (__any_sync(0xffffffff, (own & 2) != 0) != 0 ? 2U : 0U);
  }
  __device__ static void fetch(Words* to, const std::byte* from) { fetch_words(to, from); }
  __device__ static void arrive() { wait_for_words(); }
  template <class Body>
  __device__ float sum(const Body& body) {
    float own = body(lane());
#pragma unroll
    for (int apart = math::kNormPartials / 2; apart > 0; apart /= 2) own += __shfl_xor_sync(0xffffffff, own, apart);
    return own;
  }
};

template <DType dtype>
__global__ void __launch_bounds__(kLatentWarps* kLatentLanes, kLatentBlocks)
    prepare_latent_pieces(const __grid_constant__ LatentParameter parameter) {
  extern __shared__ __align__(16) std::byte latent_shared[];
  let_later_begin();
  const SquadWorkAt work = squad_work_at(parameter.work, parameter.tables);
  const LatentShape& latent = parameter.work.latent;
  const unsigned index = threadIdx.x / kLatentLanes;
  const unsigned token = blockIdx.x * (blockDim.x / kLatentLanes) + index;
  if (token >= static_cast<unsigned>(parameter.work.job.turn.tokens)) return;
  LatentWarp warp;
  wait_for_earlier();
  prepare_latent<dtype>(latent, work, {{static_cast<int>(blockIdx.z), static_cast<int>(token), 0}, static_cast<int>(blockIdx.y)},
                        latent_memory(latent, work.shape().pairs, latent_shared + index * latent.warp_bytes), warp);
}

// A file each.
const void* latent_kernel_f16();
const void* latent_kernel_bf16();

}  // namespace phasor::cuda
