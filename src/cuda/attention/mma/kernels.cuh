// SPDX-License-Identifier: Apache-2.0
// The kernels of a width.
#pragma once

#include "cuda/attention/mma/forward.cuh"
#include "cuda/attention/mma/kernels.hpp"

namespace phasor::cuda::attention::mma {

template <class K>
__global__ void __launch_bounds__(kBlockThreads, K::kBlocks) forward_kernel(const __grid_constant__ AttentionWork work) {
  extern __shared__ __align__(128) unsigned char shared_memory[];
  forward_block<K>(work, blockIdx.x, shared_memory);
}

template <class Element, int kWidth, ScoresIn kScores>
Kernel kernel_of() {
  using K = Kind<Element, kWidth, kScores>;
  return {reinterpret_cast<const void*>(&forward_kernel<K>), K::kSharedBytes, K::kTableBytes};
}
template <class Element, int kWidth>
Kernel kernel_for(ScoresIn scores) {
  switch (scores) {
    case ScoresIn::registers:
      return kernel_of<Element, kWidth, ScoresIn::registers>();
    case ScoresIn::changed_in_registers:
      return kernel_of<Element, kWidth, ScoresIn::changed_in_registers>();
    case ScoresIn::shared:
    case ScoresIn::shared_with_values:  // valued_kernel_for
    case ScoresIn::counted:             // counted_kernel_for
    case ScoresIn::tabled:              // tabled_kernel_for
      break;
  }
  return kernel_of<Element, kWidth, ScoresIn::shared>();
}
template <int kWidth>
Kernel kernel_for(DType dtype, ScoresIn scores) {
  return dtype == DType::f16 ? kernel_for<__half, kWidth>(scores) : kernel_for<__nv_bfloat16, kWidth>(scores);
}
template <int kWidth>
Kernel valued_kernel_for(DType dtype) {
  return dtype == DType::f16 ? kernel_of<__half, kWidth, ScoresIn::shared_with_values>()
                             : kernel_of<__nv_bfloat16, kWidth, ScoresIn::shared_with_values>();
}
template <int kWidth>
Kernel counted_kernel_for(DType dtype) {
  return dtype == DType::f16 ? kernel_of<__half, kWidth, ScoresIn::counted>() : kernel_of<__nv_bfloat16, kWidth, ScoresIn::counted>();
}
template <int kWidth>
Kernel tabled_kernel_for(DType dtype) {
  return dtype == DType::f16 ? kernel_of<__half, kWidth, ScoresIn::tabled>() : kernel_of<__nv_bfloat16, kWidth, ScoresIn::tabled>();
}

}  // namespace phasor::cuda::attention::mma
