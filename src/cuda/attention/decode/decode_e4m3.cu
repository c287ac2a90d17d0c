// SPDX-License-Identifier: Apache-2.0
#include "cuda/attention/decode/launch.cuh"

namespace phasor::cuda::decode {

Kernel kernel_e4m3(const DecodeWork& work) { return kernel_of<Storage::f8_e4m3>(work); }

}  // namespace phasor::cuda::decode
