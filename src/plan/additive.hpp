// SPDX-License-Identifier: Apache-2.0
// The plan of a sinusoidal spec: a few exact numbers per pair. Made in high precision, never on a hot path.
#pragma once

#include <vector>

#include "math/phase/phase.hpp"
#include "phasor/additive.hpp"
#include "plan/device_copies.hpp"
#include "spec/additive.hpp"

namespace phasor::plan {

struct SinusoidalPlan {
  SinusoidalSpec spec;
  std::vector<spec::AxisPart> parts;
  std::vector<math::Step> steps;    // of every pair, axis by axis, and so are the lists below
  std::vector<double> frequencies;  // nearest float64
  std::vector<double> turn_cos;     // of one position's turn, nearest float64
  std::vector<double> turn_sin;
  std::int64_t turning_pairs = 0;  // pairs before the trailing ones that never turn
  DeviceCopies copies;             // of the lists, on devices
};

/// Checks the spec and computes. Lets no exception out.
Result<SinusoidalPlan> make_sinusoidal_plan(const SinusoidalSpec& spec);

/// The channels of pair `i` of a part: sine, cosine.
struct PairChannels {
  std::int64_t sin, cos;
};
constexpr PairChannels channels_of(const spec::AxisPart& part, SinusoidOrder order, std::int64_t i) {
  if (order == SinusoidOrder::interleaved) return {part.channel + 2 * i, part.channel + 2 * i + 1};
  const PairChannels sin_first = {part.channel + i, part.channel + part.pairs + i};
  return order == SinusoidOrder::sin_cos ? sin_first : PairChannels{sin_first.cos, sin_first.sin};
}

/// T(distance), a distance for each axis.
ShiftOperator make_shift(const SinusoidalPlan& plan, std::span<const double> distances);

}  // namespace phasor::plan
