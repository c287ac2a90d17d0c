// SPDX-License-Identifier: Apache-2.0
// The few formulas that a model's files need before there is a plan: gains that a dialect multiplies, and scales of attention.
#pragma once

#include <cmath>

#include "math/elementary.hpp"

namespace phasor::math {

/// YaRN's g: 1 if factor <= 1, else slope ln(factor) + 1. The paper's slope is 0.1 mscale.
/// No libm: a reader puts it into a spec, and a spec means the same bits on every machine.
inline double log_gain(double factor, double slope) { return factor <= 1 ? 1 : slope * log_double_double({factor, 0}).high + 1; }

/// The scale of attention for so many channels.
inline double attention_scale(double channels) { return 1 / std::sqrt(channels); }

}  // namespace phasor::math
