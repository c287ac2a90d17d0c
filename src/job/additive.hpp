// SPDX-License-Identifier: Apache-2.0
// Additive jobs: plain data in which every check has passed and every decision is taken.
#pragma once

#include "job/rotary.hpp"
#include "plan/additive.hpp"

namespace phasor::job {

/// What encodings are added to, (B, T, 1, D). Strides in bytes: batch, token.
struct AddTarget {
  const std::byte* in = nullptr;  // null: values are written, not added
  std::byte* out = nullptr;
  DType dtype = DType::f32;
  std::int64_t batch = 0;
  std::int64_t tokens = 0;
  std::int64_t width = 0;  // D
  std::int64_t in_strides[2] = {0, 0};
  std::int64_t out_strides[2] = {0, 0};
};

/// Sinusoids. The positions of `rows` have every axis of the plan; each part reads one.
struct AddJob {
  Device device;
  AddTarget target;
  RowSource rows;
  const spec::AxisPart* parts = nullptr;  // host table
  std::int64_t part_count = 0;
  SinusoidOrder order = SinusoidOrder::interleaved;
  bool negative = false;  // the amplitude is below 0: `rows` has its magnitude
  bool has_zero = false;
  std::int64_t zero_position = 0;
  std::int64_t batch = 0;
  std::int64_t tokens = 0;
};

PHASOR_MEMBERS(AddTarget, in, out, dtype, batch, tokens, width, in_strides, out_strides)
PHASOR_MEMBERS(AddJob, device, target, rows, parts, part_count, order, negative, has_zero, zero_position, batch, tokens)

/// The encoding of every token written to `out`.
Result<AddJob> make_fill_job(const plan::SinusoidalPlan& plan, const TensorView& out, const Positions& positions, double amplitude);
/// The encoding of every token added to x.
Result<AddJob> make_add_job(const plan::SinusoidalPlan& plan, const InOut& x, const Positions& positions, double amplitude);

/// A gradient (B, T, 1, D) that is only read, and the positions of its tokens.
Status check_gradient(const plan::SinusoidalPlan& plan, const ConstTensorView& gradient, const Positions& positions);
/// The positions of one batch row; `positions` have been checked.
Positions batch_row(const Positions& positions, std::int64_t batch);

/// (B, T, 1, D) of `width` channels that is written; messages call it `name`.
Status check_add_target(const char* where, const char* name, const InOut& x, std::int64_t width);
/// `reads`: values are added to what is there.
AddTarget target_of(const InOut& x, bool reads);

}  // namespace phasor::job
