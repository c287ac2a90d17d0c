// SPDX-License-Identifier: Apache-2.0
// Validation of a rotary spec: every field, with the reason.
#pragma once

#include "phasor/rotary.hpp"

namespace phasor::spec {

/// An error says which field, what it is, what is wanted: "RotarySpec: rotary_width is 7, wanted an even number".
Status check(const RotarySpec& spec);

/// R: rotary_width, or head_dim where that is 0.
std::int64_t rotary_width(const RotarySpec& spec);

}  // namespace phasor::spec
