// SPDX-License-Identifier: Apache-2.0
// Which field of C is which of C++, for sinusoidal specs.
#include "specs/additive.hpp"

#include <type_traits>
#include <variant>

#include "core/fields.hpp"
#include "phasor/fields.hpp"

namespace phasor::c {
namespace {

// Ladders are numbered as the variant's alternatives.
static_assert(std::variant_size_v<SinusoidLadder> == PHASOR_SINUSOID_LADDER_GIVEN + 1);
static_assert(std::is_same_v<std::variant_alternative_t<PHASOR_SINUSOID_LADDER_GEOMETRIC, SinusoidLadder>, GeometricLadder>);
static_assert(std::is_same_v<std::variant_alternative_t<PHASOR_SINUSOID_LADDER_LOG_SPACED, SinusoidLadder>, LogSpacedLadder>);
static_assert(std::is_same_v<std::variant_alternative_t<PHASOR_SINUSOID_LADDER_BANDS, SinusoidLadder>, BandLadder>);

void fields(auto& way, phasor_sinusoidal_spec& c, SpecOf<GeometricLadder> auto& s) {
  way("base", c.base, s.base);
  way("shift", c.shift, s.shift);
}
void fields(auto& way, phasor_sinusoidal_spec& c, SpecOf<LogSpacedLadder> auto& s) {
  way("fastest", c.fastest, s.fastest);
  way("slowest", c.slowest, s.slowest);
}
void fields(auto& way, phasor_sinusoidal_spec& c, SpecOf<BandLadder> auto& s) {
  way("highest", c.highest, s.highest);
  way.choice("spacing", c.spacing, s.spacing, 2);
}
void fields(auto& way, phasor_sinusoidal_spec& c, SpecOf<GivenLadder> auto& s) {
  way.list("frequencies", c.frequencies, c.frequency_count, s.frequencies);
}

/// All but the ladder.
void fields(auto& way, phasor_sinusoidal_spec& c, SpecOf<SinusoidalSpec> auto& s) {
  way("width", c.width, s.width);
  way.choice("order", c.order, s.order, 3);
  way.list("axis_widths", c.axis_widths, c.axis_width_count, s.axis_widths);
  way.choice("odd", c.odd, s.odd, 2);
  way.choice("unit", c.unit, s.unit, 2);
  way("position_scale", c.position_scale, s.position_scale);
  way("amplitude", c.amplitude, s.amplitude);
  way.flagged("zero_position", c.has_zero_position, c.zero_position, s.zero_position);
}

}  // namespace

SinusoidalSpec sinusoidal_spec_of(const char* where, const phasor_sinusoidal_spec* spec) {
  phasor_sinusoidal_spec c = known(where, "the spec", need(where, "the spec", spec));
  SinusoidalSpec value;
  const Read way(where);
  fields(way, c, value);
  value.ladder = read_variant<SinusoidLadder>(where, "ladder", c.ladder, [&](const auto& by, auto& s) { fields(by, c, s); });
  return value;
}

phasor_sinusoidal_spec c_sinusoidal_spec_of(const SinusoidalSpec& spec) {
  phasor_sinusoidal_spec c{};
  c.size = sizeof(c);
  c.ladder = write_variant(spec.ladder, [&](const auto& way, const auto& s) { fields(way, c, s); });
  const Write way;
  fields(way, c, spec);
  return c;
}

}  // namespace phasor::c
