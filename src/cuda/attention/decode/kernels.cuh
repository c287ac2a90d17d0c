// SPDX-License-Identifier: Apache-2.0
// The kernels of each storage, compiled in a file of their own.
#pragma once

#include "cuda/attention/decode/kernel.cuh"

namespace phasor::cuda::decode {

Kernel kernel_bf16(int width, int rows);
Kernel kernel_f16(int width, int rows);
Kernel kernel_e4m3(int width, int rows);
Kernel kernel_e5m2(int width, int rows);

}  // namespace phasor::cuda::decode
