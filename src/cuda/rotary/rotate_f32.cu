// SPDX-License-Identifier: Apache-2.0
// Any rotation of f32, and keys that move.
#include "cuda/moves/kernels.cuh"

namespace phasor::cuda {

const void* rotate_kernel_f32(Pairing read, Pairing write, bool vectors) { return rotate_kernel<DType::f32>(read, write, vectors); }
const void* move_kernel_f32(Pairing pairing) { return move_kernel<DType::f32>(pairing); }

}  // namespace phasor::cuda
