// SPDX-License-Identifier: Apache-2.0
#include "cuda/attention/decode/kernels.cuh"

namespace phasor::cuda::decode {

Kernel kernel_e4m3(int width, int rows) { return kernel_of<Storage::f8_e4m3>(width, rows); }

}  // namespace phasor::cuda::decode
