// SPDX-License-Identifier: Apache-2.0
// Any rotation of bf16, and keys that move.
#include "cuda/moves/kernels.cuh"

namespace phasor::cuda {

const void* rotate_kernel_bf16(Pairing read, Pairing write, bool vectors) { return rotate_kernel<DType::bf16>(read, write, vectors); }
const void* move_kernel_bf16(Pairing pairing) { return move_kernel<DType::bf16>(pairing); }

}  // namespace phasor::cuda
