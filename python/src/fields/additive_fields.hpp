// SPDX-License-Identifier: Apache-2.0
// Fields of learned tables' options and of what an encoding's values show.
#pragma once

#include "fields/fields.hpp"
#include "phasor/additive_properties.hpp"
#include "phasor/learned.hpp"

namespace phasor::python {

template <>
inline constexpr std::string_view kName<EncodingProperties> = "EncodingProperties";
template <>
inline constexpr std::string_view kName<Resampling> = "Resampling";

template <>
inline constexpr std::array<std::string_view, 2> kValues<Resampling::Kernel>{"linear", "cubic"};

void fields(auto& visit, Of<Resampling> auto& s) {
  visit("kernel", s.kernel);
  visit("align_corners", s.align_corners);
}
void fields(auto& visit, Of<EncodingProperties> auto& s) {
  visit("smallest_gap", s.smallest_gap);
  visit("unique", s.unique);
  visit("independent_of_length", s.independent_of_length);
  visit("largest", s.largest);
  visit("growth", s.growth);
  visit("bounded", s.bounded);
  visit("relative_defect", s.relative_defect);
  visit("relative", s.relative);
  visit("defined_beyond", s.defined_beyond);
  visit("alternations", s.alternations);
}

}  // namespace phasor::python
