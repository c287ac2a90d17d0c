// SPDX-License-Identifier: Apache-2.0
// The fields of every struct that is a dataclass in Python: one list a struct, read by every converter (dataclass.hpp, words.hpp).
// A list is `fields(visit, s)`, which calls visit("name", s.name) for each field in order.
#pragma once

#include <array>
#include <concepts>
#include <string_view>
#include <type_traits>

#include "phasor/rotary.hpp"

namespace phasor::python {

/// The name of the dataclass, and for an enumeration the strings of its values in order.
template <class T>
inline constexpr std::string_view kName = "";
template <class E>
inline constexpr std::array<std::string_view, 0> kValues{};

template <>
inline constexpr std::string_view kName<Unscaled> = "Unscaled";
template <>
inline constexpr std::string_view kName<LinearScaling> = "LinearScaling";
template <>
inline constexpr std::string_view kName<NtkScaling> = "NtkScaling";
template <>
inline constexpr std::string_view kName<NtkMixedScaling> = "NtkMixedScaling";
template <>
inline constexpr std::string_view kName<DynamicNtkScaling> = "DynamicNtkScaling";
template <>
inline constexpr std::string_view kName<YarnScaling> = "YarnScaling";
template <>
inline constexpr std::string_view kName<LongRopeScaling> = "LongRopeScaling";
template <>
inline constexpr std::string_view kName<Llama3Scaling> = "Llama3Scaling";
template <>
inline constexpr std::string_view kName<ProportionalScaling> = "ProportionalScaling";
template <>
inline constexpr std::string_view kName<GivenFactors> = "GivenFactors";
template <>
inline constexpr std::string_view kName<GivenFrequencies> = "GivenFrequencies";
template <>
inline constexpr std::string_view kName<GivenDirections> = "GivenDirections";
template <>
inline constexpr std::string_view kName<Axes> = "Axes";
template <>
inline constexpr std::string_view kName<RotarySpec> = "RotarySpec";
template <>
inline constexpr std::string_view kName<TableLayout> = "TableLayout";

template <>
inline constexpr std::array<std::string_view, 2> kValues<YarnSoftmax>{"mscale_all_dim_squared", "unchanged"};
template <>
inline constexpr std::array<std::string_view, 2> kValues<YarnRamp>{"truncated", "exact"};
template <>
inline constexpr std::array<std::string_view, 3> kValues<LongRopeChoice>{"short_factors", "long_factors", "by_length"};
template <>
inline constexpr std::array<std::string_view, 4> kValues<AxisOrder>{"chunked", "interleaved", "alternating", "given"};
template <>
inline constexpr std::array<std::string_view, 3> kValues<AxisLadder>{"shared", "own", "dealt"};
template <>
inline constexpr std::array<std::string_view, 2> kValues<Pairing>{"half", "interleaved"};
template <>
inline constexpr std::array<std::string_view, 2> kValues<Sense>{"counterclockwise", "clockwise"};
template <>
inline constexpr std::array<std::string_view, 2> kValues<Lanes>{"alike", "tiled"};
template <>
inline constexpr std::array<std::string_view, 2> kValues<FrequencyUnit>{"radians", "turns"};
template <>
inline constexpr std::array<std::string_view, 5> kValues<Numerics>{"exact", "hf", "hf_float32", "vllm", "ggml"};

/// A struct of type T or const T.
template <class S, class T>
concept Of = std::same_as<std::remove_const_t<S>, T>;

void fields(auto& /*visit*/, Of<Unscaled> auto& /*s*/) {}
void fields(auto& visit, Of<LinearScaling> auto& s) { visit("factor", s.factor); }
void fields(auto& visit, Of<NtkScaling> auto& s) { visit("alpha", s.alpha); }
void fields(auto& visit, Of<NtkMixedScaling> auto& s) {
  visit("factor", s.factor);
  visit("mixed_exponent", s.mixed_exponent);
}
void fields(auto& visit, Of<DynamicNtkScaling> auto& s) {
  visit("factor", s.factor);
  visit("trained_length", s.trained_length);
  visit("length", s.length);
}
void fields(auto& visit, Of<YarnScaling> auto& s) {
  visit("factor", s.factor);
  visit("original_length", s.original_length);
  visit("beta_fast", s.beta_fast);
  visit("beta_slow", s.beta_slow);
  visit("ramp", s.ramp);
  visit("attention_factor", s.attention_factor);
  visit("mscale", s.mscale);
  visit("mscale_all_dim", s.mscale_all_dim);
  visit("softmax", s.softmax);
}
void fields(auto& visit, Of<LongRopeScaling> auto& s) {
  visit("short_factors", s.short_factors);
  visit("long_factors", s.long_factors);
  visit("original_length", s.original_length);
  visit("factor", s.factor);
  visit("attention_factor", s.attention_factor);
  visit("choice", s.choice);
  visit("length", s.length);
}
void fields(auto& visit, Of<Llama3Scaling> auto& s) {
  visit("factor", s.factor);
  visit("low_freq_factor", s.low_freq_factor);
  visit("high_freq_factor", s.high_freq_factor);
  visit("original_length", s.original_length);
}
void fields(auto& visit, Of<ProportionalScaling> auto& s) {
  visit("factor", s.factor);
  visit("share", s.share);
}
void fields(auto& visit, Of<GivenFactors> auto& s) {
  visit("factors", s.factors);
  visit("amplitude", s.amplitude);
}
void fields(auto& visit, Of<GivenFrequencies> auto& s) {
  visit("frequencies", s.frequencies);
  visit("amplitude", s.amplitude);
}
void fields(auto& visit, Of<GivenDirections> auto& s) {
  visit("axes", s.axes);
  visit("heads", s.heads);
  visit("frequencies", s.frequencies);
}
void fields(auto& visit, Of<Axes> auto& s) {
  visit("sections", s.sections);
  visit("order", s.order);
  visit("ladder", s.ladder);
  visit("axis_of_pair", s.axis_of_pair);
}
void fields(auto& visit, Of<RotarySpec> auto& s) {
  visit("head_dim", s.head_dim);
  visit("rotary_width", s.rotary_width);
  visit("rotary_offset", s.rotary_offset);
  visit("base", s.base);
  visit("scaling", s.scaling);
  visit("pairing", s.pairing);
  visit("output_pairing", s.output_pairing);
  visit("sense", s.sense);
  visit("axes", s.axes);
  visit("segments", s.segments);
  visit("lanes", s.lanes);
  visit("unit", s.unit);
  visit("numerics", s.numerics);
}
void fields(auto& visit, Of<TableLayout> auto& s) {
  visit("rotary_width", s.rotary_width);
  visit("rotary_offset", s.rotary_offset);
  visit("pairing", s.pairing);
  visit("output_pairing", s.output_pairing);
  visit("sense", s.sense);
  visit("numerics", s.numerics);
  visit("segments", s.segments);
}

}  // namespace phasor::python
