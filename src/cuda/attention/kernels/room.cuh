// SPDX-License-Identifier: Apache-2.0
// The memory of a block of the general kernels.
#pragma once

#include "cuda/attention/tile.hpp"

namespace phasor::cuda::attention {

template <class T>
__device__ Room<T>& room_of_block() {
  extern __shared__ __align__(16) unsigned char memory[];
  return *reinterpret_cast<Room<T>*>(memory);
}

}  // namespace phasor::cuda::attention
