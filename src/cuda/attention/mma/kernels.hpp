// SPDX-License-Identifier: Apache-2.0
// The kernels, and how large their blocks are; a file per width compiles them.
#pragma once

#include "cuda/attention/mma/call.hpp"

namespace phasor::cuda::attention::mma {

/// Registers hold 32 rows of a warp where they can: rows of keys are then read once for two products. Shared memory is 96 KiB at most.
constexpr Cut cut_for(int width, ScoresIn scores) {
  const bool shared = is_shared(scores);
  return {width, shared || width > 128 ? 64 : 128, shared && width > 64 ? 32 : 64, scores};
}

struct Kernel {
  const void* kernel;
  std::size_t shared_bytes;
};
Kernel kernel_64(DType dtype, ScoresIn scores);
Kernel kernel_128(DType dtype, ScoresIn scores);
Kernel kernel_256(DType dtype, ScoresIn scores);
/// With tables of values.
Kernel valued_kernel_64(DType dtype);
Kernel valued_kernel_128(DType dtype);
Kernel valued_kernel_256(DType dtype);

}  // namespace phasor::cuda::attention::mma
