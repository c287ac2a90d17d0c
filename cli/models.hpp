// SPDX-License-Identifier: Apache-2.0
// Models by name or by file, and the rotary spec of a layer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "phasor/model.hpp"

namespace phasor::cli {

/// Published models whose positions the tool knows without a file.
const std::vector<std::string>& built_in_names();

Result<ModelPositions> built_in_model(const std::string& name);

/// A built-in name, else a config.json, a folder that has one, or a GGUF file.
Result<ModelPositions> find_model(const std::string& name_or_path, const ReadOptions& options = {});

/// Of a layer, or of the first that rotates.
Result<RotarySpec> rotary_of(const ModelPositions& model, const std::optional<std::int64_t>& layer);

}  // namespace phasor::cli
