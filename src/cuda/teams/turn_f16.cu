// SPDX-License-Identifier: Apache-2.0
// The common rotation of f16.
#include "cuda/teams/kernels.cuh"

namespace phasor::cuda {

const void* team_kernel_f16(Pairing pairing, TeamKind kind) { return team_kernel<DType::f16>(pairing, kind); }

}  // namespace phasor::cuda
