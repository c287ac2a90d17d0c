// SPDX-License-Identifier: Apache-2.0
// Whether two strided tensors share an element: decided on elements, not on address ranges, since slices of one packed QKV interleave.
#pragma once

#include <cstdint>

#include "phasor/tensor_view.hpp"

namespace phasor::job {

enum class Overlap : std::uint8_t {
  none,
  exact,      // the same elements at the same indices: in place
  partial,    // some element is shared otherwise
  undecided,  // strides too tangled to decide within the budget
};

/// Both must be valid views; their dtypes may differ. Does not allocate.
Overlap overlap(const ConstTensorView& a, const ConstTensorView& b);

/// Elements of up to six axes, in bytes: what is no (B, T, H, D) tensor.
struct StridedBytes {
  static constexpr int kMostAxes = 6;
  const void* data = nullptr;
  std::int64_t size = 1;  // of an element
  int axes = 0;
  std::int64_t extents[kMostAxes] = {};
  std::int64_t strides[kMostAxes] = {};

  void add(std::int64_t extent, std::int64_t stride) {
    extents[axes] = extent;
    strides[axes++] = stride;
  }
};
StridedBytes strided(const ConstTensorView& a);

/// Whether two of them share a byte; what cannot be decided counts as shared. Does not allocate.
bool share_bytes(const StridedBytes& a, const StridedBytes& b);

/// Whether two different indices of one tensor are the same element; `none` or `partial` (or undecided).
Overlap self_overlap(const ConstTensorView& a);

}  // namespace phasor::job
