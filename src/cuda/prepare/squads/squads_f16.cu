// SPDX-License-Identifier: Apache-2.0
// The common prepare_attention of f16.
#include "cuda/prepare/squads/kernels.cuh"

namespace phasor::cuda {

const void* squad_kernel_f16(const SquadWork& work) { return squad_kernel<DType::f16>(work); }

}  // namespace phasor::cuda
