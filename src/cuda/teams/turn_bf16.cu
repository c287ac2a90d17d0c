// SPDX-License-Identifier: Apache-2.0
// The common rotation of bf16.
#include "cuda/teams/kernels.cuh"

namespace phasor::cuda {

const void* team_kernel_bf16(const TeamCall& call) { return team_kernel<DType::bf16>(call); }

}  // namespace phasor::cuda
