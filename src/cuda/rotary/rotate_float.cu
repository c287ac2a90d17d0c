// SPDX-License-Identifier: Apache-2.0
// Rotations that compute in float32.
#include "cuda/rotary/kernels.cuh"

namespace phasor::cuda {

const void* float_kernel(DType dtype, Pairing read, Pairing write, bool vectors) {
  if (dtype == DType::f16) return rotate_kernel<DType::f16>(read, write, vectors);
  if (dtype == DType::bf16) return rotate_kernel<DType::bf16>(read, write, vectors);
  return rotate_kernel<DType::f32>(read, write, vectors);
}

}  // namespace phasor::cuda
