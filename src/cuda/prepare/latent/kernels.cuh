// SPDX-License-Identifier: Apache-2.0
// The kernels of MLA's prepare_attention.
#pragma once

#include "cuda/dependent.cuh"
#include "cuda/prepare/fetch.cuh"
#include "cuda/prepare/latent/plain_work.hpp"
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
    if (__any_sync(0xffffffff, own != 0) == 0) return 0;
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
  template <class State>
  struct PerThread {
    State state;
    __device__ State& of(int /*lane*/) { return state; }
  };
  __device__ static void depend() { wait_for_earlier(); }
  template <int apart, int count, class Held, class Numbers>
  __device__ void swap(Held& held, const Numbers& numbers) {
    auto* const own = numbers(held.state);
#pragma unroll
    for (int i = 0; i < count; ++i) own[i] = __shfl_xor_sync(0xffffffff, own[i], apart);
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

struct PlainLatentParameter {
  PlainLatentWork work;
  alignas(16) std::byte tables[kTeamTableBytes];
};
/// Warps of a block, and blocks of a multiprocessor at a time.
PHASOR_HD constexpr int plain_latent_warps(int rounds) { return rounds == 1 ? 1 : kPlainLatentWarps; }
PHASOR_HD constexpr int plain_latent_blocks(int rounds) { return rounds == 1 ? 16 : kPlainLatentBlocks; }

template <DType dtype, int rounds, bool codes>
__global__ void __launch_bounds__(plain_latent_warps(rounds) * kLatentLanes, plain_latent_blocks(rounds))
    prepare_latent_plainly(const __grid_constant__ PlainLatentParameter parameter) {
  constexpr int kWarps = plain_latent_warps(rounds);
  __shared__ PlainLatentMemory memory[kWarps];
  let_later_begin();
  const unsigned index = kWarps == 1 ? 0 : threadIdx.x / kLatentLanes;
  const unsigned token = blockIdx.x * kWarps + index;
  if (token >= static_cast<unsigned>(parameter.work.plain.tokens)) return;
  LatentWarp warp;
  const SquadPlace place = {static_cast<int>(blockIdx.z), static_cast<int>(token), 0};
  prepare_plain_latent<PlainLatentKnows<dtype, rounds, codes>>(
      {parameter.work.plain, squad_work_at(parameter.work.squads, parameter.tables), place, static_cast<int>(blockIdx.y), memory[index]},
      warp);
}
template <DType dtype, int rounds>
const void* plain_latent_kernel_of(const PlainLatentCall& call) {
  return call.codes ? reinterpret_cast<const void*>(&prepare_latent_plainly<dtype, rounds, true>)
                    : reinterpret_cast<const void*>(&prepare_latent_plainly<dtype, rounds, false>);
}
template <DType dtype>
const void* plain_latent_kernel(const PlainLatentCall& call) {
  return call.rounds == 1 ? plain_latent_kernel_of<dtype, 1>(call) : plain_latent_kernel_of<dtype, kManyTurnedRounds>(call);
}

// A file each.
const void* latent_kernel_f16();
const void* latent_kernel_bf16();
const void* plain_latent_kernel_f16(const PlainLatentCall& call);
const void* plain_latent_kernel_bf16(const PlainLatentCall& call);

}  // namespace phasor::cuda
