// SPDX-License-Identifier: Apache-2.0
// Fields of the sinusoidal specs, of learned tables' options and of what an encoding's values show.
#pragma once

#include "fields.hpp"
#include "phasor/additive.hpp"
#include "phasor/additive_properties.hpp"
#include "phasor/learned.hpp"

namespace phasor::python {

template <>
inline constexpr std::string_view kName<GeometricLadder> = "GeometricLadder";
template <>
inline constexpr std::string_view kName<LogSpacedLadder> = "LogSpacedLadder";
template <>
inline constexpr std::string_view kName<BandLadder> = "BandLadder";
template <>
inline constexpr std::string_view kName<GivenLadder> = "GivenLadder";
template <>
inline constexpr std::string_view kName<SinusoidalSpec> = "SinusoidalSpec";
template <>
inline constexpr std::string_view kName<EncodingProperties> = "EncodingProperties";
template <>
inline constexpr std::string_view kName<Resampling> = "Resampling";

template <>
inline constexpr std::array<std::string_view, 2> kValues<BandLadder::Spacing>{"even", "ratio"};
template <>
inline constexpr std::array<std::string_view, 3> kValues<SinusoidOrder>{"interleaved", "sin_cos", "cos_sin"};
template <>
inline constexpr std::array<std::string_view, 2> kValues<OddChannel>{"zero", "unpaired"};
template <>
inline constexpr std::array<std::string_view, 2> kValues<Resampling::Kernel>{"linear", "cubic"};

void fields(auto& visit, Of<GeometricLadder> auto& s) {
  visit("base", s.base);
  visit("shift", s.shift);
}
void fields(auto& visit, Of<LogSpacedLadder> auto& s) {
  visit("fastest", s.fastest);
  visit("slowest", s.slowest);
}
void fields(auto& visit, Of<BandLadder> auto& s) {
  visit("highest", s.highest);
  visit("spacing", s.spacing);
}
void fields(auto& visit, Of<GivenLadder> auto& s) { visit("frequencies", s.frequencies); }
void fields(auto& visit, Of<SinusoidalSpec> auto& s) {
  visit("width", s.width);
  visit("ladder", s.ladder);
  visit("order", s.order);
  visit("axis_widths", s.axis_widths);
  visit("odd", s.odd);
  visit("unit", s.unit);
  visit("position_scale", s.position_scale);
  visit("amplitude", s.amplitude);
  visit("zero_position", s.zero_position);
}
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
