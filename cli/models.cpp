// SPDX-License-Identifier: Apache-2.0
// Finds a model where the user says it is.
#include "models.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <cerrno>

namespace phasor::cli {

std::string model_help(const std::string& purpose) {
  return fmt::format("{}, a file or folder before a built-in name: {}", purpose, model_words());
}

Result<ModelPositions> find_model(const std::string& path_or_name, const ReadOptions& options) {
  const bool missing = access(path_or_name.c_str(), F_OK) != 0 && errno == ENOENT;
  return missing ? built_in_model(path_or_name, options) : read_model(path_or_name, options);
}

}  // namespace phasor::cli
