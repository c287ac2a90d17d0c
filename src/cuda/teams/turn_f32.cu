// SPDX-License-Identifier: Apache-2.0
// The common rotation of f32.
#include "cuda/teams/kernels.cuh"

namespace phasor::cuda {

const void* team_kernel_f32(const TeamCall& call) { return team_kernel<DType::f32>(call); }

}  // namespace phasor::cuda
