// SPDX-License-Identifier: Apache-2.0
// What jobs ask of views; without words for messages, which nvcc cannot compile.
#pragma once

#include <algorithm>

#include "phasor/positions.hpp"
#include "phasor/tensor_view.hpp"

namespace phasor::job {

inline bool is_empty(const ConstTensorView& v) { return std::find(v.shape.begin(), v.shape.end(), 0) != v.shape.end(); }

/// The memory of positions that have some, as a tensor of elements of the same size: (axes, B, T, 1).
ConstTensorView view_of(const Positions& p);

}  // namespace phasor::job
