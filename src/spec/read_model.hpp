// SPDX-License-Identifier: Apache-2.0
// read_model by either way to a file's bytes; the public one takes the better for the system.
#pragma once

#include <string>

#include "phasor/model.hpp"
#include "spec/files/mapped_file.hpp"

namespace phasor::spec {

enum class FileAccess : std::uint8_t { mapped, in_parts };

Result<ModelPositions> read_model_by(const std::string& path, const ReadOptions& options, FileAccess access);

/// Reads the beginning, more of it while that does not suffice, and then the rope tensors wherever they are.
Result<ModelPositions> read_gguf_in_parts(const PartialFile& file, const ReadOptions& options);

}  // namespace phasor::spec
