// SPDX-License-Identifier: Apache-2.0
// The common rotation of f16.
#include "cuda/teams/kernels.cuh"

namespace phasor::cuda {

const void* team_kernel_f16(const TeamCall& call) { return team_kernel<DType::f16>(call); }

}  // namespace phasor::cuda
