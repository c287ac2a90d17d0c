// SPDX-License-Identifier: Apache-2.0
// Rotations that compute in float64.
#include "cuda/rotary/kernels.cuh"

namespace phasor::cuda {

const void* double_kernel(Pairing read, Pairing write, bool vectors) { return rotate_kernel<DType::f64>(read, write, vectors); }

}  // namespace phasor::cuda
