// SPDX-License-Identifier: Apache-2.0
// Jobs of the gradients of learned rotations: plain data in which every check has passed.
#pragma once

#include <cstddef>
#include <span>

#include "job/rotary.hpp"
#include "job/task_grid.hpp"
#include "phasor/rotary.hpp"

namespace phasor::job {

/// (B, T, H, R) and its gradient into (B, T, H or 1, P).
struct PhaseGradientJob {
  Device device;
  TensorView out;
  ConstTensorView rotated;
  ConstTensorView gradient;
  std::int64_t offset = 0;         // first rotated channel
  std::int64_t pairs = 0;          // P
  std::int64_t segment_pairs = 0;  // of one segment; P where pairs are neighbours
  bool interleaved = false;
  bool clockwise = false;
  bool add = false;
  std::int64_t batch = 0;
  std::int64_t tokens = 0;
  TaskGrid grid{};
};
Result<PhaseGradientJob> make_phase_gradient_job(const TensorView& out, const ConstTensorView& rotated, const ConstTensorView& gradient,
                                                 const TableLayout& layout, Accumulate accumulate);

/// Tokens of one partial sum of a frequency gradient. A constant, so that the order of additions is one.
inline constexpr std::int64_t kGradientTokens = 256;

/// Task i sums the tokens from i * kGradientTokens on into partial sums of its own; all of them are then added to `sum`, in order.
struct FrequencyGradientJob {
  Device device;
  std::span<double> sum;     // added to
  ConstTensorView gradient;  // (B, T, H, P)
  PositionSource positions;
  const plan::RotaryPlan* plan = nullptr;
  double* partial = nullptr;  // (tasks, frequencies), zeros
  TaskGrid grid{};            // its tasks only
};
Result<FrequencyGradientJob> make_frequency_gradient_job(std::span<double> sum, const plan::RotaryPlan& plan,
                                                         const ConstTensorView& phase_gradient, const Positions& positions);

/// A task is a block of tokens of some batch rows of `out`, each with all that is summed into it.
struct PositionGradientJob {
  Device device;
  PositionsView out;         // f64
  ConstTensorView gradient;  // (B, T, H, P)
  const plan::RotaryPlan* plan = nullptr;
  std::int64_t batch = 0;  // of out
  std::int64_t tokens = 0;
  TaskGrid grid{};
};
Result<PositionGradientJob> make_position_gradient_job(const PositionsView& out, const plan::RotaryPlan& plan,
                                                       const ConstTensorView& phase_gradient);

}  // namespace phasor::job
