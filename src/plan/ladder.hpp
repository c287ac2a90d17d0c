// SPDX-License-Identifier: Apache-2.0
// Ladders of frequencies: one for all pairs, one for each axis, or one dealt out to the axes.
#pragma once

#include "plan/scaling.hpp"

namespace phasor::plan {

struct Ladder {
  double base;
  std::int64_t pairs;  // P = R/2, R the width that the scaling's formula sees
};

/// The scaling of one ladder (scaling.cpp).
Result<Scaled> scale_ladder(const Ladder& ladder, const Scaling& scaling);

/// The frequency of every pair, as the axes' ladder says.
Result<Scaled> scale_axes(const RotarySpec& spec);

}  // namespace phasor::plan
