// SPDX-License-Identifier: Apache-2.0
// Kernels that begin while the one before them on their stream ends (programmatic dependent launch, sm_90 and newer): `launch_early`
// is for kernels that call wait_for_earlier() before they touch memory other than their parameter.
#pragma once

namespace phasor::cuda {

/// Returns when every kernel before this one on its stream has ended and what it wrote is seen. At once in an ordinary launch.
__device__ inline void wait_for_earlier() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
/// The next kernel may begin, if it was launched so, as far as its own wait_for_earlier(): it finds there what this one writes later, too.
__device__ inline void let_later_begin() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

}  // namespace phasor::cuda
