// SPDX-License-Identifier: Apache-2.0
// Any rotation of f64.
#include "cuda/rotary/kernels.cuh"

namespace phasor::cuda {

const void* rotate_kernel_f64(Pairing read, Pairing write, bool vectors) { return rotate_kernel<DType::f64>(read, write, vectors); }

}  // namespace phasor::cuda
