// SPDX-License-Identifier: Apache-2.0
// Position maps and the temperatures of queries in C.
#include "core/call.hpp"
#include "core/fields.hpp"
#include "core/lists.hpp"
#include "core/tensor.hpp"
#include "phasor/c/positions.h"
#include "phasor/position_builders.hpp"
#include "phasor/position_maps.hpp"
#include "phasor/positions.hpp"
#include "specs/position_map.hpp"

namespace {

using namespace phasor;
using namespace phasor::c;

}  // namespace

extern "C" {

phasor_status phasor_query_temperature_at(const phasor_query_temperature* temperature, int64_t position, double* factor,
                                          phasor_error* error) {
  constexpr const char* kWhere = "query_temperature";
  return call(error, [&] { *need(kWhere, "factor", factor) = query_temperature(query_temperature_of(kWhere, temperature), position); });
}

phasor_status phasor_fill_temperature(float* out, size_t count, const phasor_query_temperature* temperature, phasor_positions positions,
                                      phasor_error* error) {
  constexpr const char* kWhere = "fill_temperature";
  return call(error, [&] {
    const auto to = span_of(kWhere, "out", out, count);
    const QueryTemperature by = query_temperature_of(kWhere, temperature);
    must(fill_temperature(to, by, positions_of(kWhere, "positions", positions)));
  });
}

phasor_status phasor_fill_query_factors(const phasor_tensor* out, const phasor_query_temperature* temperature, phasor_positions positions,
                                        const phasor_execution* execution, phasor_error* error) {
  constexpr const char* kWhere = "fill_temperature";
  return call(error, [&] {
    const TensorView to = tensor_of(kWhere, "out", need(kWhere, "out", out));
    const QueryTemperature by = query_temperature_of(kWhere, temperature);
    must(fill_temperature(to, by, positions_of(kWhere, "positions", positions), execution_of(execution)));
  });
}

phasor_status phasor_mapped_distance(const phasor_position_map* map, int64_t query, int64_t key, double* distance, phasor_error* error) {
  constexpr const char* kWhere = "mapped_distance";
  return call(error, [&] { *need(kWhere, "distance", distance) = mapped_distance(position_map_of(kWhere, map), query, key); });
}

phasor_status phasor_passes_of(const phasor_position_map* map, int32_t* passes, phasor_error* error) {
  constexpr const char* kWhere = "passes_of";
  return call(error, [&] { *need(kWhere, "passes", passes) = passes_of(position_map_of(kWhere, map)); });
}

phasor_status phasor_keys_of_pass(const phasor_position_map* map, int32_t pass, int64_t query, phasor_key_range* keys,
                                  phasor_error* error) {
  constexpr const char* kWhere = "keys_of_pass";
  return call(error, [&] {
    const KeyRange range = keys_of_pass(position_map_of(kWhere, map), pass, query);
    *need(kWhere, "keys", keys) = {range.first, range.end};
  });
}

phasor_status phasor_fill_pass_positions(const phasor_tensor* out, const phasor_position_map* map, phasor_map_pass pass,
                                         phasor_positions at, phasor_error* error) {
  constexpr const char* kWhere = "fill_pass_positions";
  return call(error, [&] {
    const PositionsView to = positions_view_of(kWhere, "out", out);
    const PositionMap by = position_map_of(kWhere, map);
    const MapPass of{.pass = pass.pass, .side = choice_of<MapSide>(kWhere, "side", pass.side, 2)};
    must(fill_pass_positions(to, by, of, positions_of(kWhere, "positions", at)));
  });
}

}  // extern "C"
