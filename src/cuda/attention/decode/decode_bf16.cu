// SPDX-License-Identifier: Apache-2.0
#include "cuda/attention/decode/launch.cuh"

namespace phasor::cuda::decode {

Kernel kernel_bf16(const DecodeWork& work) { return kernel_of<Storage::bf16>(work); }

}  // namespace phasor::cuda::decode
