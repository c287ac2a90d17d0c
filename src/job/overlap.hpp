// SPDX-License-Identifier: Apache-2.0
// Whether two strided tensors share an element: decided on elements, not on address ranges, since slices of one packed QKV interleave.
#pragma once

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

/// Whether two different indices of one tensor are the same element; `none` or `partial` (or undecided).
Overlap self_overlap(const ConstTensorView& a);

}  // namespace phasor::job
