// SPDX-License-Identifier: Apache-2.0
// The fields of every spec of an encoding: one list per struct, read by the serialised form (serialised.hpp) and by bindings of other
// languages.
#pragma once

#include <array>
#include <concepts>
#include <string_view>
#include <type_traits>

#include "phasor/additive.hpp"
#include "phasor/bias.hpp"
#include "phasor/position_maps.hpp"
#include "phasor/rotary.hpp"

namespace phasor {

namespace detail {
template <class... Text>
constexpr std::array<std::string_view, sizeof...(Text)> texts(const Text&... text) {
  return {text...};
}
}  // namespace detail

// fields(visit, s) calls visit("name", s.name) for each field of a struct in order; name_of is the struct's name in every language,
// values_of the texts of an enumeration's values in order. All are found by their arguments: fields(visit, s),
// name_of(std::type_identity<T>()).

/// A struct of type T or const T.
template <class S, class T>
concept SpecOf = std::same_as<std::remove_const_t<S>, T>;

// ---- Rotary ----

constexpr std::string_view name_of(std::type_identity<Unscaled> /*type*/) { return "Unscaled"; }
constexpr std::string_view name_of(std::type_identity<LinearScaling> /*type*/) { return "LinearScaling"; }
constexpr std::string_view name_of(std::type_identity<NtkScaling> /*type*/) { return "NtkScaling"; }
constexpr std::string_view name_of(std::type_identity<NtkMixedScaling> /*type*/) { return "NtkMixedScaling"; }
constexpr std::string_view name_of(std::type_identity<DynamicNtkScaling> /*type*/) { return "DynamicNtkScaling"; }
constexpr std::string_view name_of(std::type_identity<YarnScaling> /*type*/) { return "YarnScaling"; }
constexpr std::string_view name_of(std::type_identity<LongRopeScaling> /*type*/) { return "LongRopeScaling"; }
constexpr std::string_view name_of(std::type_identity<Llama3Scaling> /*type*/) { return "Llama3Scaling"; }
constexpr std::string_view name_of(std::type_identity<ProportionalScaling> /*type*/) { return "ProportionalScaling"; }
constexpr std::string_view name_of(std::type_identity<GivenFactors> /*type*/) { return "GivenFactors"; }
constexpr std::string_view name_of(std::type_identity<GivenFrequencies> /*type*/) { return "GivenFrequencies"; }
constexpr std::string_view name_of(std::type_identity<GivenDirections> /*type*/) { return "GivenDirections"; }
constexpr std::string_view name_of(std::type_identity<Axes> /*type*/) { return "Axes"; }
constexpr std::string_view name_of(std::type_identity<RotarySpec> /*type*/) { return "RotarySpec"; }
constexpr std::string_view name_of(std::type_identity<TableLayout> /*type*/) { return "TableLayout"; }

constexpr auto values_of(std::type_identity<YarnSoftmax> /*type*/) { return detail::texts("mscale_all_dim_squared", "unchanged"); }
constexpr auto values_of(std::type_identity<YarnRamp> /*type*/) { return detail::texts("truncated", "exact"); }
constexpr auto values_of(std::type_identity<LongRopeChoice> /*type*/) {
  return detail::texts("short_factors", "long_factors", "by_length");
}
constexpr auto values_of(std::type_identity<AxisOrder> /*type*/) { return detail::texts("chunked", "interleaved", "alternating", "given"); }
constexpr auto values_of(std::type_identity<AxisLadder> /*type*/) { return detail::texts("shared", "own", "dealt"); }
constexpr auto values_of(std::type_identity<Pairing> /*type*/) { return detail::texts("half", "interleaved"); }
constexpr auto values_of(std::type_identity<Sense> /*type*/) { return detail::texts("counterclockwise", "clockwise"); }
constexpr auto values_of(std::type_identity<Lanes> /*type*/) { return detail::texts("alike", "per_channel_frequencies"); }
constexpr auto values_of(std::type_identity<FrequencyUnit> /*type*/) { return detail::texts("radians", "turns"); }
constexpr auto values_of(std::type_identity<Numerics> /*type*/) { return detail::texts("exact", "hf", "hf_float32", "vllm", "ggml"); }

void fields(auto& /*visit*/, SpecOf<Unscaled> auto& /*s*/) {}
void fields(auto& visit, SpecOf<LinearScaling> auto& s) { visit("factor", s.factor); }
void fields(auto& visit, SpecOf<NtkScaling> auto& s) { visit("alpha", s.alpha); }
void fields(auto& visit, SpecOf<NtkMixedScaling> auto& s) {
  visit("factor", s.factor);
  visit("mixed_exponent", s.mixed_exponent);
}
void fields(auto& visit, SpecOf<DynamicNtkScaling> auto& s) {
  visit("factor", s.factor);
  visit("trained_length", s.trained_length);
  visit("length", s.length);
}
void fields(auto& visit, SpecOf<YarnScaling> auto& s) {
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
void fields(auto& visit, SpecOf<LongRopeScaling> auto& s) {
  visit("short_factors", s.short_factors);
  visit("long_factors", s.long_factors);
  visit("original_length", s.original_length);
  visit("factor", s.factor);
  visit("attention_factor", s.attention_factor);
  visit("choice", s.choice);
  visit("length", s.length);
}
void fields(auto& visit, SpecOf<Llama3Scaling> auto& s) {
  visit("factor", s.factor);
  visit("low_freq_factor", s.low_freq_factor);
  visit("high_freq_factor", s.high_freq_factor);
  visit("original_length", s.original_length);
}
void fields(auto& visit, SpecOf<ProportionalScaling> auto& s) {
  visit("factor", s.factor);
  visit("share", s.share);
}
void fields(auto& visit, SpecOf<GivenFactors> auto& s) {
  visit("factors", s.factors);
  visit("amplitude", s.amplitude);
}
void fields(auto& visit, SpecOf<GivenFrequencies> auto& s) {
  visit("frequencies", s.frequencies);
  visit("amplitude", s.amplitude);
}
void fields(auto& visit, SpecOf<GivenDirections> auto& s) {
  visit("axes", s.axes);
  visit("heads", s.heads);
  visit("frequencies", s.frequencies);
}
void fields(auto& visit, SpecOf<Axes> auto& s) {
  visit("sections", s.sections);
  visit("order", s.order);
  visit("ladder", s.ladder);
  visit("axis_of_pair", s.axis_of_pair);
}
void fields(auto& visit, SpecOf<RotarySpec> auto& s) {
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
void fields(auto& visit, SpecOf<TableLayout> auto& s) {
  visit("rotary_width", s.rotary_width);
  visit("rotary_offset", s.rotary_offset);
  visit("pairing", s.pairing);
  visit("output_pairing", s.output_pairing);
  visit("sense", s.sense);
  visit("numerics", s.numerics);
  visit("segments", s.segments);
}

// ---- Sinusoidal ----

constexpr std::string_view name_of(std::type_identity<GeometricLadder> /*type*/) { return "GeometricLadder"; }
constexpr std::string_view name_of(std::type_identity<LogSpacedLadder> /*type*/) { return "LogSpacedLadder"; }
constexpr std::string_view name_of(std::type_identity<BandLadder> /*type*/) { return "BandLadder"; }
constexpr std::string_view name_of(std::type_identity<GivenLadder> /*type*/) { return "GivenLadder"; }
constexpr std::string_view name_of(std::type_identity<SinusoidalSpec> /*type*/) { return "SinusoidalSpec"; }

constexpr auto values_of(std::type_identity<BandLadder::Spacing> /*type*/) { return detail::texts("even", "ratio"); }
constexpr auto values_of(std::type_identity<SinusoidOrder> /*type*/) { return detail::texts("interleaved", "sin_cos", "cos_sin"); }
constexpr auto values_of(std::type_identity<OddChannel> /*type*/) { return detail::texts("zero", "unpaired"); }

void fields(auto& visit, SpecOf<GeometricLadder> auto& s) {
  visit("base", s.base);
  visit("shift", s.shift);
}
void fields(auto& visit, SpecOf<LogSpacedLadder> auto& s) {
  visit("fastest", s.fastest);
  visit("slowest", s.slowest);
}
void fields(auto& visit, SpecOf<BandLadder> auto& s) {
  visit("highest", s.highest);
  visit("spacing", s.spacing);
}
void fields(auto& visit, SpecOf<GivenLadder> auto& s) { visit("frequencies", s.frequencies); }
void fields(auto& visit, SpecOf<SinusoidalSpec> auto& s) {
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

// ---- Bias ----

constexpr std::string_view name_of(std::type_identity<Alibi> /*type*/) { return "Alibi"; }
constexpr std::string_view name_of(std::type_identity<T5Buckets> /*type*/) { return "T5Buckets"; }
constexpr std::string_view name_of(std::type_identity<DebertaBuckets> /*type*/) { return "DebertaBuckets"; }
constexpr std::string_view name_of(std::type_identity<ShawClip> /*type*/) { return "ShawClip"; }
constexpr std::string_view name_of(std::type_identity<Kerple> /*type*/) { return "Kerple"; }
constexpr std::string_view name_of(std::type_identity<Sandwich> /*type*/) { return "Sandwich"; }
constexpr std::string_view name_of(std::type_identity<Mlp> /*type*/) { return "Mlp"; }
constexpr std::string_view name_of(std::type_identity<Fire> /*type*/) { return "Fire"; }
constexpr std::string_view name_of(std::type_identity<DynamicMlp> /*type*/) { return "DynamicMlp"; }
constexpr std::string_view name_of(std::type_identity<Window> /*type*/) { return "Window"; }
constexpr std::string_view name_of(std::type_identity<SwinTable> /*type*/) { return "SwinTable"; }
constexpr std::string_view name_of(std::type_identity<SwinV2> /*type*/) { return "SwinV2"; }
constexpr std::string_view name_of(std::type_identity<XlSinusoids> /*type*/) { return "XlSinusoids"; }

constexpr auto values_of(std::type_identity<AlibiForm> /*type*/) { return detail::texts("symmetric", "causal", "key_position"); }
constexpr auto values_of(std::type_identity<SlopeRounding> /*type*/) { return detail::texts("float64", "bf16"); }
constexpr auto values_of(std::type_identity<BucketSides> /*type*/) { return detail::texts("both", "behind"); }
constexpr auto values_of(std::type_identity<DebertaReading> /*type*/) { return detail::texts("hf", "microsoft", "hf_swapped"); }
constexpr auto values_of(std::type_identity<KerpleKind> /*type*/) { return detail::texts("logarithmic", "power"); }
constexpr auto values_of(std::type_identity<Activation> /*type*/) { return detail::texts("relu", "silu"); }
constexpr auto values_of(std::type_identity<DistanceScale> /*type*/) { return detail::texts("linear", "logarithmic"); }
constexpr auto values_of(std::type_identity<XlOrder> /*type*/) { return detail::texts("halves", "interleaved"); }

void fields(auto& visit, SpecOf<Alibi> auto& s) {
  visit("heads", s.heads);
  visit("slopes", s.slopes);
  visit("max_bias", s.max_bias);
  visit("form", s.form);
  visit("rounding", s.rounding);
}
void fields(auto& visit, SpecOf<T5Buckets> auto& s) {
  visit("heads", s.heads);
  visit("buckets", s.buckets);
  visit("max_distance", s.max_distance);
  visit("sides", s.sides);
  visit("table", s.table);
}
void fields(auto& visit, SpecOf<DebertaBuckets> auto& s) {
  visit("heads", s.heads);
  visit("buckets", s.buckets);
  visit("max_distance", s.max_distance);
  visit("reading", s.reading);
  visit("table", s.table);
}
void fields(auto& visit, SpecOf<ShawClip> auto& s) {
  visit("heads", s.heads);
  visit("left", s.left);
  visit("right", s.right);
  visit("table", s.table);
}
void fields(auto& visit, SpecOf<Kerple> auto& s) {
  visit("kind", s.kind);
  visit("r1", s.r1);
  visit("r2", s.r2);
}
void fields(auto& visit, SpecOf<Sandwich> auto& s) {
  visit("heads", s.heads);
  visit("width", s.width);
  visit("base", s.base);
}
void fields(auto& visit, SpecOf<Mlp> auto& s) {
  visit("widths", s.widths);
  visit("parameters", s.parameters);
  visit("activation", s.activation);
}
void fields(auto& visit, SpecOf<Fire> auto& s) {
  visit("mlp", s.mlp);
  visit("c", s.c);
  visit("length", s.length);
  visit("epsilon", s.epsilon);
}
void fields(auto& visit, SpecOf<DynamicMlp> auto& s) {
  visit("mlp", s.mlp);
  visit("scale", s.scale);
}
void fields(auto& visit, SpecOf<Window> auto& s) {
  visit("height", s.height);
  visit("width", s.width);
}
void fields(auto& visit, SpecOf<SwinTable> auto& s) {
  visit("heads", s.heads);
  visit("window", s.window);
  visit("table", s.table);
}
void fields(auto& visit, SpecOf<SwinV2> auto& s) {
  visit("window", s.window);
  visit("trained", s.trained);
  visit("mlp", s.mlp);
}
void fields(auto& visit, SpecOf<XlSinusoids> auto& s) {
  visit("width", s.width);
  visit("base", s.base);
  visit("order", s.order);
  visit("clamp", s.clamp);
}

// ---- Maps ----

constexpr std::string_view name_of(std::type_identity<ReRope> /*type*/) { return "ReRope"; }
constexpr std::string_view name_of(std::type_identity<LeakyReRope> /*type*/) { return "LeakyReRope"; }
constexpr std::string_view name_of(std::type_identity<SelfExtend> /*type*/) { return "SelfExtend"; }
constexpr std::string_view name_of(std::type_identity<DualChunk> /*type*/) { return "DualChunk"; }

void fields(auto& visit, SpecOf<ReRope> auto& s) { visit("window", s.window); }
void fields(auto& visit, SpecOf<LeakyReRope> auto& s) {
  visit("window", s.window);
  visit("factor", s.factor);
}
void fields(auto& visit, SpecOf<SelfExtend> auto& s) {
  visit("window", s.window);
  visit("group", s.group);
}
void fields(auto& visit, SpecOf<DualChunk> auto& s) {
  visit("chunk", s.chunk);
  visit("local", s.local);
  visit("critical", s.critical);
}

}  // namespace phasor
