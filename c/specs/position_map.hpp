// SPDX-License-Identifier: Apache-2.0
// Position maps, query temperatures and page tables between C and C++.
#pragma once

#include "phasor/c/positions.h"
#include "phasor/position_builders.hpp"
#include "phasor/position_maps.hpp"
#include "phasor/positions.hpp"

namespace phasor::c {

/// Needed: where a map is optional, ask before.
PositionMap position_map_of(const char* where, const phasor_position_map* map);
phasor_position_map c_position_map_of(const PositionMap& map);

QueryTemperature query_temperature_of(const char* where, const phasor_query_temperature* temperature);
phasor_query_temperature c_query_temperature_of(const QueryTemperature& temperature);

PageTable page_table_of(const char* where, const phasor_page_table& table);
Ragged ragged_of(const char* where, const phasor_ragged& ragged);

}  // namespace phasor::c
