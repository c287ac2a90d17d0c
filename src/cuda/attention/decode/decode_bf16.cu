// SPDX-License-Identifier: Apache-2.0
#include "cuda/attention/decode/kernels.cuh"

namespace phasor::cuda::decode {

Kernel kernel_bf16(int width, int rows) { return kernel_of<Storage::bf16>(width, rows); }

}  // namespace phasor::cuda::decode
