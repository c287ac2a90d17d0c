// SPDX-License-Identifier: Apache-2.0
// The common prepare_attention of f32.
#include "cuda/prepare/squads/kernels.cuh"

namespace phasor::cuda {

const void* squad_kernel_f32(const SquadWork& work) { return squad_kernel<DType::f32>(work); }

}  // namespace phasor::cuda
