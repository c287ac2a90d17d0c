// SPDX-License-Identifier: Apache-2.0
// What a scaling means: the exact frequencies of the pairs, the amplitude and the factor on the softmax scale.
#pragma once

#include <vector>

#include "phasor/rotary.hpp"
#include "plan/real.hpp"

namespace phasor::plan {

struct Scaled {
  // A position, in the spec's unit: of each pair, R/2 of them; of each direction, (axes, heads, R/2).
  std::vector<Real> frequencies;
  Real amplitude = 1;
  Real softmax_scale = 1;
};

/// Needs a spec that passes spec::check. An error when the numbers that follow from valid fields leave the range of a plan.
Result<Scaled> scale(const RotarySpec& spec);

}  // namespace phasor::plan
