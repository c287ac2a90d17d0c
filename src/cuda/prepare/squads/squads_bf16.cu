// SPDX-License-Identifier: Apache-2.0
// The common prepare_attention of bf16.
#include "cuda/prepare/squads/kernels.cuh"

namespace phasor::cuda {

const void* squad_kernel_bf16(const SquadWork& work) { return squad_kernel<DType::bf16>(work); }

}  // namespace phasor::cuda
