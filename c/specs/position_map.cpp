// SPDX-License-Identifier: Apache-2.0
// Which field of C is which of C++, for position maps, query temperatures and page tables.
#include "specs/position_map.hpp"

#include <type_traits>
#include <variant>

#include "core/fields.hpp"
#include "core/tensor.hpp"
#include "phasor/fields.hpp"

namespace phasor::c {
namespace {

// Kinds are numbered as the variant's alternatives.
static_assert(std::variant_size_v<PositionMap> == PHASOR_MAP_DUAL_CHUNK + 1);
static_assert(std::is_same_v<std::variant_alternative_t<PHASOR_MAP_RE_ROPE, PositionMap>, ReRope>);
static_assert(std::is_same_v<std::variant_alternative_t<PHASOR_MAP_LEAKY_RE_ROPE, PositionMap>, LeakyReRope>);
static_assert(std::is_same_v<std::variant_alternative_t<PHASOR_MAP_SELF_EXTEND, PositionMap>, SelfExtend>);

void fields(auto& way, phasor_position_map& c, SpecOf<ReRope> auto& s) { way("window", c.window, s.window); }
void fields(auto& way, phasor_position_map& c, SpecOf<LeakyReRope> auto& s) {
  way("window", c.window, s.window);
  way("factor", c.factor, s.factor);
}
void fields(auto& way, phasor_position_map& c, SpecOf<SelfExtend> auto& s) {
  way("window", c.window, s.window);
  way("group", c.group, s.group);
}
void fields(auto& way, phasor_position_map& c, SpecOf<DualChunk> auto& s) {
  way("chunk", c.chunk, s.chunk);
  way("local", c.local, s.local);
  way("critical", c.critical, s.critical);
}

void fields(auto& way, phasor_query_temperature& c, SpecOf<QueryTemperature> auto& s) {
  way.choice("kind", c.kind, s.kind, 2);
  way("scale", c.scale, s.scale);
  way("length", c.length, s.length);
  way("shift", c.shift, s.shift);
}

}  // namespace

PositionMap position_map_of(const char* where, const phasor_position_map* map) {
  phasor_position_map c = known(where, "the map", need(where, "the map", map));
  return read_variant<PositionMap>(where, "the map's kind", c.kind, [&](const auto& way, auto& s) { fields(way, c, s); });
}

phasor_position_map c_position_map_of(const PositionMap& map) {
  phasor_position_map c{};
  c.size = sizeof(c);
  c.kind = write_variant(map, [&](const auto& way, const auto& s) { fields(way, c, s); });
  return c;
}

QueryTemperature query_temperature_of(const char* where, const phasor_query_temperature* temperature) {
  phasor_query_temperature c = known(where, "the temperature", need(where, "the temperature", temperature));
  QueryTemperature value;
  const Read way(where);
  fields(way, c, value);
  return value;
}

phasor_query_temperature c_query_temperature_of(const QueryTemperature& temperature) {
  phasor_query_temperature c{};
  c.size = sizeof(c);
  const Write way;
  fields(way, c, temperature);
  return c;
}

PageTable page_table_of(const char* where, const phasor_page_table& table) {
  return {.blocks = integers_of(where, "blocks", table.blocks),
          .lengths = integers_of(where, "lengths", table.lengths),
          .page_size = table.page_size};
}

Ragged ragged_of(const char* where, const phasor_ragged& ragged) {
  return {.cu_seqlens = integers_of(where, "cu_seqlens", ragged.cu_seqlens), .offsets = integers_of(where, "offsets", ragged.offsets)};
}

}  // namespace phasor::c
