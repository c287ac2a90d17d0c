// SPDX-License-Identifier: Apache-2.0
// The general kernels of attention, and the machine that puts them on a stream. A file per arithmetic compiles them.
#pragma once

#include "cuda/attention/item.hpp"
#include "cuda/threads.hpp"

namespace phasor::cuda::attention {

struct ItemParameter {
  AttentionWork work;
  ItemWork item;
};

template <class T>
__global__ void __launch_bounds__(kThreads) item_kernel(const __grid_constant__ ItemParameter parameter) {
  const int64_t step = int64_t{gridDim.x} * kThreads;
  for (int64_t n = int64_t{blockIdx.x} * kThreads + threadIdx.x; n < parameter.item.count; n += step) {
    do_item<T>(parameter.work, parameter.item, n);
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads) forward_kernel(const __grid_constant__ AttentionWork work) {
  extern __shared__ __align__(16) unsigned char memory[];
  BlockThreads block;
  const int64_t count = forward_blocks<T>(work);
  for (int64_t n = blockIdx.x; n < count; n += gridDim.x) {
    forward_block(work, n, *reinterpret_cast<Room<T>*>(memory), block);
  }
}

}  // namespace phasor::cuda::attention
