// SPDX-License-Identifier: Apache-2.0
// The kernel around a block of decoding, and which of its shapes has how many rows.
#pragma once

#include "cuda/attention/decode/kernel.cuh"
#include "cuda/attention/decode/kernels.cuh"

namespace phasor::cuda::decode {

template <class S>
__global__ void __launch_bounds__(kThreads, S::kBlocks) decode_blocks(const __grid_constant__ DecodeWork work) {
  extern __shared__ __align__(kAlignment) std::byte memory[];
  decode_block<S>(work, blockIdx.x, blockIdx.y, memory);
}

template <class S>
Kernel kernel_of(const DecodeWork& work) {
  return {reinterpret_cast<const void*>(&decode_blocks<S>), Room<S>::bytes(splits_queries(work), has_same_strides(work)),
          Room<S>::bytes(true, false), S::kRows};
}
template <Storage kStorage, int kWidth>
Kernel kernel_of(const DecodeWork& work) {
  const int rows = rows_of(work);
  if (rows <= 8) return kernel_of<Shape<kStorage, kWidth, 1, 1>>(work);
  if (rows <= 16) return kernel_of<Shape<kStorage, kWidth, 2, 1>>(work);
  return rows <= 32 ? kernel_of<Shape<kStorage, kWidth, 2, 2>>(work) : kernel_of<Shape<kStorage, kWidth, 2, 4>>(work);
}
/// Of width 64, 128 or 256.
template <Storage kStorage>
Kernel kernel_of(const DecodeWork& work) {
  if (work.width == 64) return kernel_of<kStorage, 64>(work);
  return work.width == 128 ? kernel_of<kStorage, 128>(work) : kernel_of<kStorage, 256>(work);
}

}  // namespace phasor::cuda::decode
