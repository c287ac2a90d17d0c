// SPDX-License-Identifier: Apache-2.0
// Rotary specs, scalings and layouts of tables between C and C++.
#pragma once

#include "phasor/c/rotary.h"
#include "phasor/c/specs.h"
#include "phasor/rotary.hpp"

namespace phasor::c {

Scaling scaling_of(const char* where, const phasor_scaling* scaling);
RotarySpec rotary_spec_of(const char* where, const phasor_rotary_spec* spec);

TableLayout layout_of(const char* where, const phasor_table_layout* layout);

/// The spec as structs of C whose lists are the spec's own.
phasor_scaling c_scaling_of(const Scaling& scaling);
phasor_rotary_spec c_spec_of(const RotarySpec& spec);

}  // namespace phasor::c
