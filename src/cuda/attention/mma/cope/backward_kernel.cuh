// SPDX-License-Identifier: Apache-2.0
// The kernel of a width, and where it is found; a file per width compiles it.
#pragma once

#include "cuda/attention/mma/backward/kernels.hpp"
#include "cuda/attention/mma/cope/backward.cuh"

namespace phasor::cuda::attention::mma::cope {

template <class K>
__global__ void __launch_bounds__(kBlockThreads, 2) backward_kernel(const __grid_constant__ AttentionWork work) {
  extern __shared__ __align__(128) unsigned char shared_memory[];
  backward_block<K>(work, blockIdx.x, shared_memory);
}

template <int kWidth>
Kernel backward_kernel_for(DType dtype) {
  const void* const kernel = dtype == DType::f16 ? reinterpret_cast<const void*>(&backward_kernel<BackwardKind<__half, kWidth>>)
                                                 : reinterpret_cast<const void*>(&backward_kernel<BackwardKind<__nv_bfloat16, kWidth>>);
  return {kernel, sizeof(Room<kWidth>)};
}

}  // namespace phasor::cuda::attention::mma::cope
