// SPDX-License-Identifier: Apache-2.0
// Models by name or by file.
#pragma once

#include <string>

#include "figures/models.hpp"
#include "uses.hpp"

namespace phasor::cli {

/// What find_model takes, for --help, after what the model is for.
std::string model_help(const std::string& purpose);

/// A config.json, a folder that has one, a GGUF file, or a built-in name. Every command finds its models by this function. A file or
/// folder wins over a built-in model of the same name: what is there was meant.
Result<ModelPositions> find_model(const std::string& path_or_name, const ReadOptions& options = {});

}  // namespace phasor::cli
