// SPDX-License-Identifier: Apache-2.0
// Which field of C is which of C++, for bias specs.
#include "specs/bias.hpp"

#include <type_traits>
#include <variant>

#include "core/fields.hpp"
#include "phasor/fields.hpp"

namespace phasor::c {
namespace {

// Kinds are numbered as the variant's alternatives.
static_assert(std::variant_size_v<BiasSpec> == PHASOR_BIAS_SWIN_V2 + 1);
static_assert(std::is_same_v<std::variant_alternative_t<PHASOR_BIAS_ALIBI, BiasSpec>, Alibi>);
static_assert(std::is_same_v<std::variant_alternative_t<PHASOR_BIAS_T5, BiasSpec>, T5Buckets>);
static_assert(std::is_same_v<std::variant_alternative_t<PHASOR_BIAS_DEBERTA, BiasSpec>, DebertaBuckets>);
static_assert(std::is_same_v<std::variant_alternative_t<PHASOR_BIAS_SHAW_CLIP, BiasSpec>, ShawClip>);
static_assert(std::is_same_v<std::variant_alternative_t<PHASOR_BIAS_KERPLE, BiasSpec>, Kerple>);
static_assert(std::is_same_v<std::variant_alternative_t<PHASOR_BIAS_SANDWICH, BiasSpec>, Sandwich>);
static_assert(std::is_same_v<std::variant_alternative_t<PHASOR_BIAS_FIRE, BiasSpec>, Fire>);
static_assert(std::is_same_v<std::variant_alternative_t<PHASOR_BIAS_DYNAMIC_MLP, BiasSpec>, DynamicMlp>);
static_assert(std::is_same_v<std::variant_alternative_t<PHASOR_BIAS_SWIN, BiasSpec>, SwinTable>);

void mlp_fields(auto& way, phasor_mlp& c, SpecOf<Mlp> auto& s) {
  way.list("mlp.widths", c.widths, c.width_count, s.widths);
  way.list("mlp.parameters", c.parameters, c.parameter_count, s.parameters);
  way.choice("mlp.activation", c.activation, s.activation, 2);
  way.apart("mlp.reserved", c.reserved);  // nobody's
}

void fields(auto& way, phasor_bias_spec& c, SpecOf<Alibi> auto& s) {
  way("heads", c.heads, s.heads);
  way.list("slopes", c.slopes, c.slope_count, s.slopes);
  way("max_bias", c.max_bias, s.max_bias);
  way.choice("form", c.form, s.form, 3);
  way.choice("rounding", c.rounding, s.rounding, 2);
}
void fields(auto& way, phasor_bias_spec& c, SpecOf<T5Buckets> auto& s) {
  way("heads", c.heads, s.heads);
  way.flagged("buckets", c.has_buckets, c.buckets, s.buckets);
  way("max_distance", c.max_distance, s.max_distance);
  way.choice("sides", c.sides, s.sides, 2);
  way.list("table", c.table, c.table_count, s.table);
}
void fields(auto& way, phasor_bias_spec& c, SpecOf<DebertaBuckets> auto& s) {
  way("heads", c.heads, s.heads);
  way.flagged("buckets", c.has_buckets, c.buckets, s.buckets);
  way("max_distance", c.max_distance, s.max_distance);
  way.choice("reading", c.reading, s.reading, 3);
  way.list("table", c.table, c.table_count, s.table);
}
void fields(auto& way, phasor_bias_spec& c, SpecOf<ShawClip> auto& s) {
  way("heads", c.heads, s.heads);
  way("left", c.left, s.left);
  way("right", c.right, s.right);
  way.list("table", c.table, c.table_count, s.table);
}
void fields(auto& way, phasor_bias_spec& c, SpecOf<Kerple> auto& s) {
  way.choice("kerple", c.kerple, s.kind, 2);
  way.list("r1", c.r1, c.r1_count, s.r1);
  way.list("r2", c.r2, c.r2_count, s.r2);
}
void fields(auto& way, phasor_bias_spec& c, SpecOf<Sandwich> auto& s) {
  way("heads", c.heads, s.heads);
  way("width", c.width, s.width);
  way("base", c.base, s.base);
}
void fields(auto& way, phasor_bias_spec& c, SpecOf<Fire> auto& s) {
  mlp_fields(way, c.mlp, s.mlp);
  way("c", c.c, s.c);
  way("length", c.length, s.length);
  way("epsilon", c.epsilon, s.epsilon);
}
void fields(auto& way, phasor_bias_spec& c, SpecOf<DynamicMlp> auto& s) {
  mlp_fields(way, c.mlp, s.mlp);
  way.choice("scale", c.scale, s.scale, 2);
}
void fields(auto& way, phasor_bias_spec& c, SpecOf<SwinTable> auto& s) {
  way("heads", c.heads, s.heads);
  window_fields(way, "window", c.window, s.window);
  way.list("table", c.table, c.table_count, s.table);
}
void fields(auto& way, phasor_bias_spec& c, SpecOf<SwinV2> auto& s) {
  window_fields(way, "window", c.window, s.window);
  window_fields(way, "trained", c.trained, s.trained);
  mlp_fields(way, c.mlp, s.mlp);
}

}  // namespace

BiasSpec bias_spec_of(const char* where, const phasor_bias_spec* spec) {
  phasor_bias_spec c = known(where, "the bias", need(where, "the bias", spec));
  return read_variant<BiasSpec>(where, "the bias's kind", c.kind, [&](const auto& way, auto& s) { fields(way, c, s); });
}

phasor_bias_spec c_bias_spec_of(const BiasSpec& spec) {
  phasor_bias_spec c{};
  c.size = sizeof(c);
  c.kind = write_variant(spec, [&](const auto& way, const auto& s) { fields(way, c, s); });
  return c;
}

}  // namespace phasor::c
