// SPDX-License-Identifier: Apache-2.0
// The kernel of the general backward. It compiles for a minute or two, so it has files of its own, one per arithmetic.
#pragma once

#include "cuda/attention/backward/backward.hpp"
#include "cuda/attention/kernels/kernels.hpp"
#include "cuda/attention/kernels/room.cuh"
#include "cuda/threads.hpp"

namespace phasor::cuda::attention {

template <class T>
__global__ void __launch_bounds__(kThreads) backward_kernel(const __grid_constant__ AttentionWork work) {
  BlockThreads block;
  for (int64_t n = blockIdx.x; n < backward_blocks(work); n += gridDim.x) backward_block(work, n, room_of_block<T>(), block);
}

}  // namespace phasor::cuda::attention
