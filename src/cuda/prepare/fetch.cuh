// SPDX-License-Identifier: Apache-2.0
// Vectors that a thread copies to shared memory without waiting for them, nor holding registers for them (sm_80 and newer).
#pragma once

#include "cuda/teams/memory.hpp"

namespace phasor::cuda {

__device__ inline void fetch_words(Words* to, const std::byte* from) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(static_cast<unsigned>(__cvta_generic_to_shared(to))), "l"(from)
               : "memory");
#else
  *to = load_words<false>(from);
#endif
}
/// Those that the thread itself copies are there.
__device__ inline void wait_for_words() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

}  // namespace phasor::cuda
