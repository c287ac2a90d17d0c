// SPDX-License-Identifier: Apache-2.0
// The general kernels of attention. A file per arithmetic compiles them.
#pragma once

#include "cuda/attention/item.hpp"
#include "cuda/attention/kernels/kernels.hpp"
#include "cuda/attention/kernels/room.cuh"
#include "cuda/attention/weights.hpp"
#include "cuda/threads.hpp"

namespace phasor::cuda::attention {

template <class T>
__global__ void __launch_bounds__(kThreads) item_kernel(const __grid_constant__ ItemParameter parameter) {
  const int64_t step = int64_t{gridDim.x} * kThreads;
  for (int64_t n = int64_t{blockIdx.x} * kThreads + threadIdx.x; n < parameter.item.count; n += step) {
    do_item<T>(parameter.work, parameter.item, n);
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads) sum_kernel(const __grid_constant__ ItemParameter parameter) {
  const int64_t step = int64_t{gridDim.x} * kThreads;
  for (int64_t n = int64_t{blockIdx.x} * kThreads + threadIdx.x; n < parameter.item.count; n += step) {
    do_sum<T>(parameter.work, parameter.item, n);
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads) forward_kernel(const __grid_constant__ AttentionWork work) {
  BlockThreads block;
  for (int64_t n = blockIdx.x; n < forward_blocks<T>(work); n += gridDim.x) forward_block(work, n, room_of_block<T>(), block);
}

template <class T>
__global__ void __launch_bounds__(kThreads) weights_kernel(const __grid_constant__ WeightsWork work) {
  BlockThreads block;
  for (int64_t n = blockIdx.x; n < weights_blocks(work); n += gridDim.x) weights_block(work, n, room_of_block<T>(), block);
}

template <class T>
Kernels kernels_of(const void* backward) {
  return {.item = reinterpret_cast<const void*>(&item_kernel<T>),
          .sum = reinterpret_cast<const void*>(&sum_kernel<T>),
          .forward = reinterpret_cast<const void*>(&forward_kernel<T>),
          .weights = reinterpret_cast<const void*>(&weights_kernel<T>),
          .backward = backward,
          .room = &room_bytes<T>};
}

}  // namespace phasor::cuda::attention
