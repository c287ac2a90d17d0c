// SPDX-License-Identifier: Apache-2.0
// The common rotation of f64.
#include "cuda/teams/kernels.cuh"

namespace phasor::cuda {

const void* team_kernel_f64(const TeamCall& call) { return team_kernel<DType::f64>(call); }

}  // namespace phasor::cuda
