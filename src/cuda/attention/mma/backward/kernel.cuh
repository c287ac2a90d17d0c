// SPDX-License-Identifier: Apache-2.0
// The kernel of a width, and where it is found; a file per width compiles it.
#pragma once

#include "cuda/attention/mma/backward/backward.cuh"
#include "cuda/attention/mma/backward/kernels.hpp"

namespace phasor::cuda::attention::mma::backward {

template <class K>
__global__ void __launch_bounds__(kBackwardThreads, 2) backward_kernel(const __grid_constant__ AttentionWork work) {
  extern __shared__ __align__(128) unsigned char shared_memory[];
  backward_block<K>(work, blockIdx.x, *reinterpret_cast<typename K::Room*>(shared_memory));
}

template <class Element, int kWidth, With kWith>
Kernel kernel_of() {
  using K = Kind<Element, kWidth, kWith>;
  return {reinterpret_cast<const void*>(&backward_kernel<K>), sizeof(typename K::Room)};
}
template <int kWidth, With kWith>
Kernel kernel_for(DType dtype) {
  return dtype == DType::f16 ? kernel_of<__half, kWidth, kWith>() : kernel_of<__nv_bfloat16, kWidth, kWith>();
}

}  // namespace phasor::cuda::attention::mma::backward
