// SPDX-License-Identifier: Apache-2.0
// Bias specs between C and C++.
#pragma once

#include <string>

#include "phasor/bias.hpp"
#include "phasor/c/bias.h"
#include "phasor/fields.hpp"

namespace phasor::c {

BiasSpec bias_spec_of(const char* where, const phasor_bias_spec* spec);
/// The spec as a struct of C whose lists are the spec's own.
phasor_bias_spec c_bias_spec_of(const BiasSpec& spec);

inline Window window_of(const phasor_window& window) { return {.height = window.height, .width = window.width}; }
/// For the lists of fields of structs that have windows.
inline void window_fields(auto& way, const std::string& name, phasor_window& c, SpecOf<Window> auto& s) {
  way((name + ".height").c_str(), c.height, s.height);
  way((name + ".width").c_str(), c.width, s.width);
}

}  // namespace phasor::c
