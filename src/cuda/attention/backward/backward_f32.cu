// SPDX-License-Identifier: Apache-2.0
// The general backward of attention in float.
#include "cuda/attention/backward/backward.hpp"
#include "cuda/attention/kernels/kernels.hpp"
#include "cuda/threads.hpp"

namespace phasor::cuda::attention {
namespace {

__global__ void __launch_bounds__(kThreads) backward_kernel(const __grid_constant__ AttentionWork work) {
  extern __shared__ __align__(16) unsigned char memory[];
  BlockThreads block;
  for (int64_t n = blockIdx.x; n < backward_blocks(work); n += gridDim.x) {
    backward_block(work, n, *reinterpret_cast<Room<float>*>(memory), block);
  }
}

}  // namespace

const void* backward_f32() { return reinterpret_cast<const void*>(&backward_kernel); }

}  // namespace phasor::cuda::attention
