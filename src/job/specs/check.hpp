// SPDX-License-Identifier: Apache-2.0
// Checks of several specs in one call, and of the caller's lists of integers.
#pragma once

#include <span>

#include "job/check.hpp"
#include "job/overlap.hpp"
#include "job/specs/list.hpp"
#include "phasor/rotary.hpp"

namespace phasor::job {

/// A list of integers, where there is one.
Status check_list(const char* where, const char* name, const IntegerList& list, Device device);
StridedBytes bytes_of_list(const IntegerList& list);

/// Several specs of a call on tensors of (batch, tokens).
struct SpecsCall {
  const char* where;
  std::span<const Rotary> rotaries;
  const IntegerList& spec_of;
  const Positions& positions;
  PositionShape shape;
  DType dtype;
  Direction direction = Direction::forward;
};
/// Checks that specs agree in what their rows are applied to, and fills `rows`, one for each. One spec without spec_of: an empty list.
Status fill_specs(const SpecsCall& call, std::span<RowSource> rows, SpecList& list);

/// What spec_of holds, looked at on a CPU.
Status check_spec_of(const char* where, const SpecList& list);

}  // namespace phasor::job
