// SPDX-License-Identifier: Apache-2.0
// Which field of C is which of C++, for rotary specs and scalings.
#include "specs/rotary.hpp"

#include <array>
#include <utility>
#include <variant>

#include "core/fields.hpp"
#include "phasor/fields.hpp"

namespace phasor::c {
namespace {

// Kinds are numbered as the variant's alternatives.
static_assert(std::variant_size_v<Scaling> == PHASOR_SCALING_GIVEN_DIRECTIONS + 1);
static_assert(std::is_same_v<std::variant_alternative_t<PHASOR_SCALING_YARN, Scaling>, YarnScaling>);

// In C the default comes first.
constexpr std::array kLongRopeChoices = {LongRopeChoice::by_length, LongRopeChoice::short_factors, LongRopeChoice::long_factors};

void fields(auto& /*way*/, phasor_scaling& /*c*/, SpecOf<Unscaled> auto& /*s*/) {}
void fields(auto& way, phasor_scaling& c, SpecOf<LinearScaling> auto& s) { way("factor", c.factor, s.factor); }
void fields(auto& way, phasor_scaling& c, SpecOf<NtkScaling> auto& s) { way("alpha", c.alpha, s.alpha); }
void fields(auto& way, phasor_scaling& c, SpecOf<NtkMixedScaling> auto& s) {
  way("factor", c.factor, s.factor);
  way.flagged("mixed_exponent", c.has_mixed_exponent, c.mixed_exponent, s.mixed_exponent);
}
void fields(auto& way, phasor_scaling& c, SpecOf<DynamicNtkScaling> auto& s) {
  way("factor", c.factor, s.factor);
  way("trained_length", c.trained_length, s.trained_length);
  way("length", c.length, s.length);
}
void fields(auto& way, phasor_scaling& c, SpecOf<YarnScaling> auto& s) {
  way("factor", c.factor, s.factor);
  way("original_length", c.original_length, s.original_length);
  way("beta_fast", c.beta_fast, s.beta_fast);
  way("beta_slow", c.beta_slow, s.beta_slow);
  way.choice("ramp", c.ramp, s.ramp, 2);
  way.flagged("attention_factor", c.has_attention_factor, c.attention_factor, s.attention_factor);
  way.flagged("mscale", c.has_mscale, c.mscale, s.mscale);
  way.flagged("mscale_all_dim", c.has_mscale_all_dim, c.mscale_all_dim, s.mscale_all_dim);
  way.choice("softmax", c.softmax, s.softmax, 2);
}
void fields(auto& way, phasor_scaling& c, SpecOf<LongRopeScaling> auto& s) {
  way.list("short_factors", c.short_factors, c.short_factor_count, s.short_factors);
  way.list("long_factors", c.long_factors, c.long_factor_count, s.long_factors);
  way("original_length", c.original_length, s.original_length);
  way("factor", c.factor, s.factor);
  way.flagged("attention_factor", c.has_attention_factor, c.attention_factor, s.attention_factor);
  way.choice("choice", c.choice, s.choice, kLongRopeChoices);
  way("length", c.length, s.length);
}
void fields(auto& way, phasor_scaling& c, SpecOf<Llama3Scaling> auto& s) {
  way("factor", c.factor, s.factor);
  way("low_freq_factor", c.low_freq_factor, s.low_freq_factor);
  way("high_freq_factor", c.high_freq_factor, s.high_freq_factor);
  way("original_length", c.original_length, s.original_length);
}
void fields(auto& way, phasor_scaling& c, SpecOf<ProportionalScaling> auto& s) {
  way("factor", c.factor, s.factor);
  way.flagged("share", c.has_share, c.share, s.share);
}
void fields(auto& way, phasor_scaling& c, SpecOf<GivenFactors> auto& s) {
  way.list("values", c.values, c.value_count, s.factors);
  way("amplitude", c.amplitude, s.amplitude);
}
void fields(auto& way, phasor_scaling& c, SpecOf<GivenFrequencies> auto& s) {
  way.list("values", c.values, c.value_count, s.frequencies);
  way("amplitude", c.amplitude, s.amplitude);
}
void fields(auto& way, phasor_scaling& c, SpecOf<GivenDirections> auto& s) {
  way("axes", c.axes, s.axes);
  way("heads", c.heads, s.heads);
  way.list("values", c.values, c.value_count, s.frequencies);
}

/// All but the scaling.
void fields(auto& way, phasor_rotary_spec& c, SpecOf<RotarySpec> auto& s) {
  way("head_dim", c.head_dim, s.head_dim);
  way("rotary_width", c.rotary_width, s.rotary_width);
  way("rotary_offset", c.rotary_offset, s.rotary_offset);
  way("base", c.base, s.base);
  way.choice("pairing", c.pairing, s.pairing, 2);
  way.flagged_choice("output_pairing", c.has_output_pairing, c.output_pairing, s.output_pairing, 2);
  way.choice("sense", c.sense, s.sense, 2);
  way("segments", c.segments, s.segments);
  way.choice("lanes", c.lanes, s.lanes, 2);
  way.choice("unit", c.unit, s.unit, 2);
  way.choice("numerics", c.numerics, s.numerics, 5);
  way.list("axes.sections", c.axes.sections, c.axes.section_count, s.axes.sections);
  way.list("axes.axis_of_pair", c.axes.axis_of_pair, c.axes.axis_of_pair_count, s.axes.axis_of_pair);
  way.choice("axes.order", c.axes.order, s.axes.order, 4);
  way.choice("axes.ladder", c.axes.ladder, s.axes.ladder, 3);
}

}  // namespace

Scaling scaling_of(const char* where, const phasor_scaling* scaling) {
  phasor_scaling c = known(where, "the scaling", scaling);
  return read_variant<Scaling>(where, "the scaling's kind", c.kind, [&](const auto& way, auto& s) { fields(way, c, s); });
}

phasor_scaling c_scaling_of(const Scaling& scaling) {
  phasor_scaling c{};
  c.size = sizeof(c);
  c.kind = write_variant(scaling, [&](const auto& way, const auto& s) { fields(way, c, s); });
  return c;
}

RotarySpec rotary_spec_of(const char* where, const phasor_rotary_spec* spec) {
  phasor_rotary_spec c = known(where, "the spec", need(where, "the spec", spec));
  RotarySpec value;
  const Read way(where);
  fields(way, c, value);
  value.scaling = scaling_of(where, c.scaling);
  return value;
}

TableLayout layout_of(const char* where, const phasor_table_layout* layout) {
  phasor_table_layout c = known(where, "the layout", layout);
  TableLayout value;
  const Read way(where);
  way("rotary_width", c.rotary_width, value.rotary_width);
  way("rotary_offset", c.rotary_offset, value.rotary_offset);
  way("segments", c.segments, value.segments);
  way.choice("pairing", c.pairing, value.pairing, 2);
  way.flagged_choice("output_pairing", c.has_output_pairing, c.output_pairing, value.output_pairing, 2);
  way.choice("sense", c.sense, value.sense, 2);
  way.choice("numerics", c.numerics, value.numerics, 5);
  return value;
}

phasor_rotary_spec c_spec_of(const RotarySpec& spec) {
  phasor_rotary_spec c{};
  c.size = sizeof(c);
  const Write way;
  fields(way, c, spec);
  return c;
}

}  // namespace phasor::c
