// SPDX-License-Identifier: Apache-2.0
// Attention forward on Hopper: heads of 128 channels, with tables by distance that queries and keys meet.
#include "cuda/attention/hopper/forward/kernels.cuh"
#include "cuda/attention/hopper/strip/term.cuh"

namespace phasor::cuda::hopper {

ForwardKernel strip_kernel_128(DType dtype) {
  return dtype == DType::f16 ? kernel_of<__half, 1, Stripped, false>() : kernel_of<__nv_bfloat16, 1, Stripped, false>();
}

}  // namespace phasor::cuda::hopper
