// SPDX-License-Identifier: Apache-2.0
// Which kernels an arithmetic has, and what they take.
#pragma once

#include "cuda/attention/item.hpp"

namespace phasor::cuda::attention {

struct ItemParameter {
  AttentionWork work;
  ItemWork item;
};

struct Kernels {
  const void* item;
  const void* sum;
  const void* forward;
  const void* weights;
  const void* backward;
  std::size_t (*room)(const AttentionWork& work);  // shared memory of a block
};
Kernels kernels_f32();
Kernels kernels_f64();
const void* backward_f32();
const void* backward_f64();

}  // namespace phasor::cuda::attention
