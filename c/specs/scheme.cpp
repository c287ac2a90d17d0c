// SPDX-License-Identifier: Apache-2.0
// Which field of C is which of C++, for attention schemes.
#include "specs/scheme.hpp"

#include <string>
#include <type_traits>
#include <utility>
#include <variant>

#include "core/array.hpp"
#include "core/fields.hpp"
#include "specs/bias.hpp"
#include "specs/position_map.hpp"
#include "specs/rotary.hpp"

namespace phasor::c {
namespace {

// Kinds are numbered as the variants' alternatives.
static_assert(std::variant_size_v<TermScheme> == PHASOR_TERM_COPE + 1);
static_assert(std::is_same_v<std::variant_alternative_t<PHASOR_TERM_BIAS, TermScheme>, BiasScheme>);
static_assert(std::is_same_v<std::variant_alternative_t<PHASOR_TERM_TABLE, TermScheme>, TableScheme>);
static_assert(std::is_same_v<std::variant_alternative_t<PHASOR_TERM_SEGMENT, TermScheme>, SegmentScheme>);
static_assert(std::is_same_v<std::variant_alternative_t<PHASOR_TERM_GRID, TermScheme>, GridScheme>);
static_assert(std::is_same_v<std::variant_alternative_t<PHASOR_TERM_DECOMPOSED, TermScheme>, DecomposedScheme>);
static_assert(std::is_same_v<std::variant_alternative_t<PHASOR_TERM_DENSE, TermScheme>, DenseScheme>);
static_assert(std::variant_size_v<ContentScheme> == PHASOR_CONTENT_XPOS + 1);
static_assert(std::is_same_v<std::variant_alternative_t<PHASOR_CONTENT_ROTARY, ContentScheme>, RotaryScheme>);

// ---- Terms ----

void fields(auto& way, phasor_term_scheme& c, SpecOf<ClipRows> auto& s) {
  way("left", c.left, s.left);
  way("right", c.right, s.right);
  way.choice("outside", c.outside, s.outside, 2);
}
/// Rows by a bias have their own struct.
void fields(auto& /*way*/, phasor_term_scheme& /*c*/, SpecOf<BiasSpec> auto& /*s*/) {}

void fields(auto& way, phasor_term_scheme& c, SpecOf<BiasScheme> auto& s) {
  way("first_head", c.first_head, s.first_head);
  way("gate", c.gate, s.gate);
  way("parameters", c.parameters, s.parameters);
  way.apart("bias", c.bias);
}
void fields(auto& way, phasor_term_scheme& c, SpecOf<TableScheme> auto& s) {
  way.choice("side", c.side, s.side, 3);
  std::visit([&](auto& rows) { fields(way, c, rows); }, s.rows);
  way("features", c.features, s.features);
  way("shift", c.shift, s.shift);
  way.flagged("scale", c.has_scale, c.scale, s.scale);
}
void fields(auto& way, phasor_term_scheme& c, SpecOf<SegmentScheme> auto& s) {
  way("shift", c.shift, s.shift);
  way.flagged("scale", c.has_scale, c.scale, s.scale);
}
void fields(auto& way, phasor_term_scheme& c, SpecOf<GridScheme> auto& s) {
  window_fields(way, "window", c.window, s.window);
  way.choice("class_token", c.class_token, s.class_token, 2);
}
void fields(auto& way, phasor_term_scheme& c, SpecOf<DecomposedScheme> auto& s) {
  window_fields(way, "query_grid", c.query_grid, s.query_grid);
  window_fields(way, "key_grid", c.key_grid, s.key_grid);
  way.flagged("scale", c.has_scale, c.scale, s.scale);
}
void fields(auto& /*way*/, phasor_term_scheme& /*c*/, SpecOf<DenseScheme> auto& /*s*/) {}
void fields(auto& way, phasor_term_scheme& c, SpecOf<CopeScheme> auto& s) {
  way.flagged("gate_scale", c.has_gate_scale, c.gate_scale, s.gate_scale);
  way.flagged("scale", c.has_scale, c.scale, s.scale);
}

/// What a kind takes from another struct.
void read_bias(const char* where, phasor_term_scheme& c, BiasScheme& s) {
  s.bias = bias_spec_of(where, c.bias);
  c.bias = nullptr;
}
void read_bias(const char* where, phasor_term_scheme& c, TableScheme& s) {
  if (c.bias != nullptr) s.rows = bias_spec_of(where, c.bias);
  c.bias = nullptr;
}
void read_bias(const char* /*where*/, phasor_term_scheme& /*c*/, auto& /*s*/) {}

TermScheme term_of(const char* where, phasor_term_scheme c) {
  return read_variant<TermScheme>(where, "the term's kind", c.kind, [&]<class Way>(const Way& way, auto& s) {
    if constexpr (std::is_same_v<Way, Read>) read_bias(where, c, s);
    fields(way, c, s);
  });
}

// ---- Content ----

void fields(auto& /*way*/, phasor_content_scheme& /*c*/, SpecOf<PlainScheme> auto& /*s*/) {}
void fields(auto& way, phasor_content_scheme& c, SpecOf<RotaryScheme> auto& s) {
  way.choice("keys", c.keys, s.keys, 2);
  way.apart("rotary", c.rotary);
  way.apart("map", c.map);
}
void fields(auto& way, phasor_content_scheme& c, SpecOf<XposScheme> auto& s) {
  way("gamma", c.gamma, s.gamma);
  way("scale_base", c.scale_base, s.scale_base);
}

void read_rotary(const char* /*where*/, phasor_content_scheme& /*c*/, PlainScheme& /*s*/) {}
void read_rotary(const char* where, phasor_content_scheme& c, RotaryScheme& s) {
  s.rotary = rotary_spec_of(where, need(where, "the content's rotary", c.rotary));
  if (c.map != nullptr) s.map = position_map_of(where, c.map);
  c.rotary = nullptr;
  c.map = nullptr;
}
void read_rotary(const char* where, phasor_content_scheme& c, XposScheme& s) {
  s.rotary = rotary_spec_of(where, need(where, "the content's rotary", c.rotary));
  c.rotary = nullptr;
}

ContentScheme content_of(const char* where, const phasor_content_scheme* content) {
  phasor_content_scheme c = known(where, "the content", content);
  return read_variant<ContentScheme>(where, "the content's kind", c.kind, [&]<class Way>(const Way& way, auto& s) {
    if constexpr (std::is_same_v<Way, Read>) read_rotary(where, c, s);
    fields(way, c, s);
  });
}

/// All but content and terms.
void fields(auto& way, phasor_attention_scheme& c, SpecOf<AttentionScheme> auto& s) {
  way("content_shift", c.content_shift, s.content_shift);
  way.flagged("scale", c.has_scale, c.scale, s.scale);
  way("softcap", c.softcap, s.softcap);
  way("sinks", c.sinks, s.sinks);
  way.choice("mask", c.mask, s.mask, 2);
  way.flagged("left", c.has_left, c.left, s.left);
  way.flagged("right", c.has_right, c.right, s.right);
  way.choice("skip", c.skip, s.skip, 2);
  way("dropout", c.dropout, s.dropout);
}

}  // namespace

AttentionScheme attention_scheme_of(const char* where, const phasor_attention_scheme* scheme) {
  phasor_attention_scheme c = known(where, "the scheme", need(where, "the scheme", scheme));
  AttentionScheme value;
  value.content = content_of(where, c.content);
  std::size_t index = 0;
  for (const phasor_term_scheme& term : known_list(where, "terms", c.terms, c.term_count)) {
    value.terms.push_back(term_of((std::string(where) + ": terms[" + std::to_string(index++) + "]").c_str(), term));
  }
  const Read way(where);
  fields(way, c, value);
  return value;
}

phasor_attention_scheme c_scheme_of(const AttentionScheme& scheme) {
  phasor_attention_scheme c{};
  c.size = sizeof(c);
  c.term_count = scheme.terms.size();
  const Write way;
  fields(way, c, scheme);
  return c;
}

phasor_content_scheme c_content_of(const ContentScheme& content) {
  phasor_content_scheme c{};
  c.size = sizeof(c);
  c.kind = write_variant(content, [&](const auto& way, const auto& s) { fields(way, c, s); });
  return c;
}

const RotarySpec* rotary_of(const ContentScheme& content) {
  if (const auto* rotary = std::get_if<RotaryScheme>(&content)) return &rotary->rotary;
  const auto* xpos = std::get_if<XposScheme>(&content);
  return xpos == nullptr ? nullptr : &xpos->rotary;
}

const PositionMap* map_of(const ContentScheme& content) {
  const auto* rotary = std::get_if<RotaryScheme>(&content);
  return rotary == nullptr || !rotary->map ? nullptr : &*rotary->map;
}

phasor_term_scheme c_term_of(const TermScheme& term) {
  phasor_term_scheme c{};
  c.size = sizeof(c);
  c.kind = write_variant(term, [&](const auto& way, const auto& s) { fields(way, c, s); });
  return c;
}

const BiasSpec* bias_of(const TermScheme& term) {
  if (const auto* bias = std::get_if<BiasScheme>(&term)) return &bias->bias;
  const auto* table = std::get_if<TableScheme>(&term);
  return table == nullptr ? nullptr : std::get_if<BiasSpec>(&table->rows);
}

}  // namespace phasor::c
