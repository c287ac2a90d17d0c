// SPDX-License-Identifier: Apache-2.0
// Any rotation of bf16.
#include "cuda/rotary/kernels.cuh"

namespace phasor::cuda {

const void* rotate_kernel_bf16(Pairing read, Pairing write, bool vectors) { return rotate_kernel<DType::bf16>(read, write, vectors); }

}  // namespace phasor::cuda
