// SPDX-License-Identifier: Apache-2.0
// Models by name, and the rotary spec of a layer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "figures/number_list.hpp"
#include "phasor/model.hpp"

namespace phasor::figures {

/// Published models whose positions the tool knows without a file.
const std::vector<std::string>& built_in_names();

/// The built-in one whatever files there are.
Result<ModelPositions> built_in_model(const std::string& name, const ReadOptions& options = {});

/// What find_model of the tool takes: "a config.json, a folder that has one, a GGUF file, or gpt-oss, llama2, ...".
std::string model_words();

/// Of a layer, or of the first that rotates.
Result<RotarySpec> rotary_of(const ModelPositions& model, const std::optional<std::int64_t>& layer);

/// "layers 0-4, 6-10".
std::string layer_words(const Numbers& layers);

}  // namespace phasor::figures
