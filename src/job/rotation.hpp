// SPDX-License-Identifier: Apache-2.0
// A rotation without operands, for jobs that turn heads by themselves.
#pragma once

#include "job/check.hpp"
#include "job/rotary.hpp"

namespace phasor::job {

/// Checks of the positions, then the rows, pairings and numerics of a rotation of tensors of `dtype`.
Result<RotateJob> make_rotation(const char* where, const plan::RotaryPlan& plan, const Positions& positions, const PositionShape& shape,
                                DType dtype, Direction direction);

/// Tables that a caller gives.
struct GivenTables {
  const ConstTensorView& cos;
  const ConstTensorView& sin;
  const TableLayout& layout;
};
/// A tensor of a call, and what messages call it.
struct NamedTensor {
  const char* name;
  const ConstTensorView& view;
};
/// Checks of the tables against a tensor that they turn, but not against the memory that is written; then the rotation by them of heads of
/// `head_dim` channels. Heads with tables of their own are as many as cos has.
Result<RotateJob> make_rotation(const char* where, const GivenTables& tables, const NamedTensor& turned, std::int64_t head_dim,
                                Direction direction);

}  // namespace phasor::job
