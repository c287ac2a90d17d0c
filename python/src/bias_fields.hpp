// SPDX-License-Identifier: Apache-2.0
// Fields of the schemes that bias scores.
#pragma once

#include "fields.hpp"
#include "phasor/bias.hpp"

namespace phasor::python {

template <>
inline constexpr std::string_view kName<Alibi> = "Alibi";
template <>
inline constexpr std::string_view kName<T5Buckets> = "T5Buckets";
template <>
inline constexpr std::string_view kName<DebertaBuckets> = "DebertaBuckets";
template <>
inline constexpr std::string_view kName<ShawClip> = "ShawClip";
template <>
inline constexpr std::string_view kName<Kerple> = "Kerple";
template <>
inline constexpr std::string_view kName<Sandwich> = "Sandwich";
template <>
inline constexpr std::string_view kName<Mlp> = "Mlp";
template <>
inline constexpr std::string_view kName<Fire> = "Fire";
template <>
inline constexpr std::string_view kName<DynamicMlp> = "DynamicMlp";
template <>
inline constexpr std::string_view kName<Window> = "Window";
template <>
inline constexpr std::string_view kName<SwinTable> = "SwinTable";
template <>
inline constexpr std::string_view kName<SwinV2> = "SwinV2";
template <>
inline constexpr std::string_view kName<XlSinusoids> = "XlSinusoids";

template <>
inline constexpr std::array<std::string_view, 3> kValues<AlibiForm>{"symmetric", "causal", "key_position"};
template <>
inline constexpr std::array<std::string_view, 2> kValues<SlopeRounding>{"float64", "bf16"};
template <>
inline constexpr std::array<std::string_view, 2> kValues<BucketSides>{"both", "behind"};
template <>
inline constexpr std::array<std::string_view, 3> kValues<DebertaReading>{"hf", "microsoft", "hf_swapped"};
template <>
inline constexpr std::array<std::string_view, 2> kValues<KerpleKind>{"logarithmic", "power"};
template <>
inline constexpr std::array<std::string_view, 2> kValues<Activation>{"relu", "silu"};
template <>
inline constexpr std::array<std::string_view, 2> kValues<DistanceScale>{"linear", "logarithmic"};
template <>
inline constexpr std::array<std::string_view, 2> kValues<XlOrder>{"halves", "interleaved"};

void fields(auto& visit, Of<Alibi> auto& s) {
  visit("heads", s.heads);
  visit("slopes", s.slopes);
  visit("max_bias", s.max_bias);
  visit("form", s.form);
  visit("rounding", s.rounding);
}
void fields(auto& visit, Of<T5Buckets> auto& s) {
  visit("heads", s.heads);
  visit("buckets", s.buckets);
  visit("max_distance", s.max_distance);
  visit("sides", s.sides);
  visit("table", s.table);
}
void fields(auto& visit, Of<DebertaBuckets> auto& s) {
  visit("heads", s.heads);
  visit("buckets", s.buckets);
  visit("max_distance", s.max_distance);
  visit("reading", s.reading);
  visit("table", s.table);
}
void fields(auto& visit, Of<ShawClip> auto& s) {
  visit("heads", s.heads);
  visit("left", s.left);
  visit("right", s.right);
  visit("table", s.table);
}
void fields(auto& visit, Of<Kerple> auto& s) {
  visit("kind", s.kind);
  visit("r1", s.r1);
  visit("r2", s.r2);
}
void fields(auto& visit, Of<Sandwich> auto& s) {
  visit("heads", s.heads);
  visit("width", s.width);
  visit("base", s.base);
}
void fields(auto& visit, Of<Mlp> auto& s) {
  visit("widths", s.widths);
  visit("parameters", s.parameters);
  visit("activation", s.activation);
}
void fields(auto& visit, Of<Fire> auto& s) {
  visit("mlp", s.mlp);
  visit("c", s.c);
  visit("length", s.length);
  visit("epsilon", s.epsilon);
}
void fields(auto& visit, Of<DynamicMlp> auto& s) {
  visit("mlp", s.mlp);
  visit("scale", s.scale);
}
void fields(auto& visit, Of<Window> auto& s) {
  visit("height", s.height);
  visit("width", s.width);
}
void fields(auto& visit, Of<SwinTable> auto& s) {
  visit("heads", s.heads);
  visit("window", s.window);
  visit("table", s.table);
}
void fields(auto& visit, Of<SwinV2> auto& s) {
  visit("window", s.window);
  visit("trained", s.trained);
  visit("mlp", s.mlp);
}
void fields(auto& visit, Of<XlSinusoids> auto& s) {
  visit("width", s.width);
  visit("base", s.base);
  visit("order", s.order);
  visit("clamp", s.clamp);
}

}  // namespace phasor::python
