// SPDX-License-Identifier: Apache-2.0
// Validation of a sinusoidal spec, and how its channels are dealt out to axes.
#pragma once

#include <vector>

#include "phasor/additive.hpp"

namespace phasor::spec {

/// The channels and pairs of one axis.
struct AxisPart {
  std::int64_t channel;  // first
  std::int64_t width;    // channels; those behind the pairs' are zero
  std::int64_t pair;     // first
  std::int64_t pairs;
  std::int64_t axis;
  bool unpaired;  // of the last pair only the first half is there
};

/// "SinusoidalSpec: field is ..., wanted ...", for the first field that does not fit.
Status check(const SinusoidalSpec& spec);

/// Needs a checked spec.
std::vector<AxisPart> axis_parts(const SinusoidalSpec& spec);

/// Whether a factor on every value is far inside the range of float32: 2^-64 to 2^64, or the same below 0.
bool is_amplitude(double amplitude);

}  // namespace phasor::spec
