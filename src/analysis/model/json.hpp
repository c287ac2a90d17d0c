// SPDX-License-Identifier: Apache-2.0
// Specs and layers as JSON: every field under the name it has in the headers.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "phasor/model.hpp"

namespace phasor::analysis {

using Json = nlohmann::ordered_json;

/// One line; bytes that are no UTF-8 (a name out of a file) are replaced, never an exception.
std::string dumped(const Json& json, int indent = -1);

/// Null when the value is not finite: JSON has no word for it.
Json json_number(double value);

/// {"name": "llama3", "factor": 8, ...}.
Json scaling_json(const Scaling& scaling);
Json rotary_json(const RotarySpec& spec);
Json layer_json(const LayerPositions& layer);

}  // namespace phasor::analysis
