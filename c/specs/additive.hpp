// SPDX-License-Identifier: Apache-2.0
// Sinusoidal specs between C and C++.
#pragma once

#include "phasor/additive.hpp"
#include "phasor/c/additive.h"

namespace phasor::c {

SinusoidalSpec sinusoidal_spec_of(const char* where, const phasor_sinusoidal_spec* spec);
/// The spec as a struct of C whose lists are the spec's own.
phasor_sinusoidal_spec c_sinusoidal_spec_of(const SinusoidalSpec& spec);

}  // namespace phasor::c
