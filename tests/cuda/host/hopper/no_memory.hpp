// SPDX-License-Identifier: Apache-2.0
// Tensors that nobody reads, for tests of which calls go to Hopper's kernels.
#pragma once

#include <cstddef>

#include "phasor/attention.hpp"

namespace phasor::test {

alignas(64) inline std::byte some_memory[256];
constexpr Device kGpu = {DeviceKind::cuda, 0};

inline TensorView on_gpu(const Extents& shape, DType dtype = DType::bf16) {
  return {some_memory, dtype, shape, contiguous_strides(shape), kGpu};
}

inline AttentionSpec with_bias(const BiasSpec& bias) {
  AttentionSpec spec;
  spec.terms = {BiasTerm{*Bias::make(bias)}};
  return spec;
}

}  // namespace phasor::test
