// SPDX-License-Identifier: Apache-2.0
// The kernels of a width.
#pragma once

#include "cuda/attention/mma/forward.cuh"
#include "cuda/attention/mma/kernels.hpp"

namespace phasor::cuda::attention::mma {

template <class Element, int kWidth, ScoresIn kScores>
Kernel kernel_of() {
  using K = Kind<Element, kWidth, kScores>;
  return {reinterpret_cast<const void*>(&forward_kernel<K>), K::kSharedBytes};
}
template <class Element, int kWidth>
Kernel kernel_for(ScoresIn scores) {
  switch (scores) {
    case ScoresIn::registers:
      return kernel_of<Element, kWidth, ScoresIn::registers>();
    case ScoresIn::changed_in_registers:
      return kernel_of<Element, kWidth, ScoresIn::changed_in_registers>();
    case ScoresIn::shared:
      break;
  }
  return kernel_of<Element, kWidth, ScoresIn::shared>();
}
template <int kWidth>
Kernel kernel_for(DType dtype, ScoresIn scores) {
  return dtype == DType::f16 ? kernel_for<__half, kWidth>(scores) : kernel_for<__nv_bfloat16, kWidth>(scores);
}

}  // namespace phasor::cuda::attention::mma
