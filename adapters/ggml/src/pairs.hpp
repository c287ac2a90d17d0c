// SPDX-License-Identifier: Apache-2.0
// Which position turns which pair, and how fast beside the plain ladder: ggml's formulas over the reals.
#pragma once

#include <vector>

#include "rope.hpp"

namespace phasor_ggml {

struct Pair {
  std::uint8_t axis = 0;
  std::int64_t rung = 0;  // of the ladder: base^(-2 rung / width)
};

std::vector<Pair> pairs_of(const Rope& rope);

/// What each pair's rung of the ladder is multiplied by: scale, YaRN's mix, one over the pair's factor.
std::vector<double> multipliers_of(const Rope& rope, const float* factors);

/// Factor on cos and sin.
double amplitude_of(const Rope& rope);

}  // namespace phasor_ggml
