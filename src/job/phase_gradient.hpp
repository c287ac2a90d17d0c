// SPDX-License-Identifier: Apache-2.0
// Jobs of the gradients of learned rotations: plain data in which every check has passed.
#pragma once

#include <cstdint>

#include "job/rotary.hpp"
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
};
Result<PhaseGradientJob> make_phase_gradient_job(const TensorView& out, const ConstTensorView& rotated, const ConstTensorView& gradient,
                                                 const TableLayout& layout, Accumulate accumulate);

/// The frequencies that pairs turn by: one per pair, or (axes, heads, P) where every axis turns each pair.
struct LadderSource {
  const double* frequencies = nullptr;         // host table
  std::int64_t count = 0;                      // of frequencies
  const std::uint8_t* axis_of_pair = nullptr;  // host table, one value per pair; null: one axis turns all or every axis turns each
  std::int64_t axes = 1;
  std::int64_t heads = 1;                      // with frequencies of their own; 1: every head alike
  const plan::DeviceCopies* copies = nullptr;  // where devices keep the host tables
};

/// Tokens of one partial sum of a frequency gradient. A constant, so that the order of additions is one.
inline constexpr std::int64_t kGradientTokens = 256;

/// The tokens from i * kGradientTokens on are summed into partial sum i, in float64; all of those are then added to `sum`, in order, and
/// rounded once.
struct FrequencyGradientJob {
  Device device;
  TensorView sum;            // (1, 1, 1, frequencies), added to
  ConstTensorView gradient;  // (B, T, H, P)
  PositionSource positions;
  LadderSource ladder;
};
Result<FrequencyGradientJob> make_frequency_gradient_job(const TensorView& sum, const plan::RotaryPlan& plan,
                                                         const ConstTensorView& phase_gradient, const Positions& positions);

/// Every token of every batch row of `out` with all that is summed into it.
struct PositionGradientJob {
  Device device;
  PositionsView out;         // f64
  ConstTensorView gradient;  // (B, T, H, P)
  LadderSource ladder;
  std::int64_t batch = 0;  // of out
  std::int64_t tokens = 0;
};
Result<PositionGradientJob> make_position_gradient_job(const PositionsView& out, const plan::RotaryPlan& plan,
                                                       const ConstTensorView& phase_gradient);

PHASOR_MEMBERS(PhaseGradientJob, device, out, rotated, gradient, offset, pairs, segment_pairs, interleaved, clockwise, add, batch, tokens)
PHASOR_MEMBERS(LadderSource, frequencies, count, axis_of_pair, axes, heads, copies)
PHASOR_MEMBERS(FrequencyGradientJob, device, sum, gradient, positions, ladder)
PHASOR_MEMBERS(PositionGradientJob, device, out, gradient, ladder, batch, tokens)

}  // namespace phasor::job
