// SPDX-License-Identifier: Apache-2.0
#include "cuda/attention/decode/kernels.cuh"

namespace phasor::cuda::decode {

Kernel kernel_f16(int width, int rows) { return kernel_of<Storage::f16>(width, rows); }

}  // namespace phasor::cuda::decode
