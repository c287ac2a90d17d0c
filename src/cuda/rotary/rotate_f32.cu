// SPDX-License-Identifier: Apache-2.0
// Any rotation of f32.
#include "cuda/rotary/kernels.cuh"

namespace phasor::cuda {

const void* rotate_kernel_f32(Pairing read, Pairing write, bool vectors) { return rotate_kernel<DType::f32>(read, write, vectors); }

}  // namespace phasor::cuda
