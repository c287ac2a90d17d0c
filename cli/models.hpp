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

/// The built-in one whatever files there are.
Result<ModelPositions> built_in_model(const std::string& name, const ReadOptions& options = {});

/// What find_model takes: "a config.json, a folder that has one, a GGUF file, or gpt-oss, llama2, ...".
std::string model_words();
/// The same for --help, after what the model is for.
std::string model_help(const std::string& purpose);

/// A config.json, a folder that has one, a GGUF file, or a built-in name. Every command finds its models by this function. A file or
/// folder wins over a built-in model of the same name: what is there was meant.
Result<ModelPositions> find_model(const std::string& path_or_name, const ReadOptions& options = {});

/// Of a layer, or of the first that rotates.
Result<RotarySpec> rotary_of(const ModelPositions& model, const std::optional<std::int64_t>& layer);

}  // namespace phasor::cli
