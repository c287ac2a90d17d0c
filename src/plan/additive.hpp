// SPDX-License-Identifier: Apache-2.0
// The plan of a sinusoidal spec: a few exact numbers per pair. Made in high precision, never on a hot path.
#pragma once

#include <vector>

#include "math/phase/phase.hpp"
#include "phasor/additive.hpp"
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
};

/// Checks the spec and computes. Lets no exception out.
Result<SinusoidalPlan> make_sinusoidal_plan(const SinusoidalSpec& spec);

/// The channels of pair `i` of a part: sine, cosine.
struct PairChannels {
  std::int64_t sin, cos;
};
PairChannels channels_of(const spec::AxisPart& part, SinusoidOrder order, std::int64_t i);

/// T(distance), a distance for each axis.
ShiftOperator make_shift(const SinusoidalPlan& plan, std::span<const double> distances);

}  // namespace phasor::plan
