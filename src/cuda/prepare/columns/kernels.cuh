// SPDX-License-Identifier: Apache-2.0
// The kernel of values that lie by channels.
#pragma once

#include "cuda/dependent.cuh"
#include "cuda/prepare/columns/work.hpp"
#include "cuda/prepare/squads/kernels.cuh"

namespace phasor::cuda {

const void* column_kernel(DType dtype);

}  // namespace phasor::cuda
