// SPDX-License-Identifier: Apache-2.0
// What the keys of a GGUF file mean, layer by layer.
#pragma once

#include "phasor/model.hpp"
#include "spec/gguf/file.hpp"

namespace phasor::spec {

/// Throws ReadError.
ModelPositions positions_of(const GgufFile& file, const ReadOptions& options);

/// parse_gguf on a file of which only the beginning is in memory.
Result<ModelPositions> parse_gguf_bytes(const GgufBytes& bytes, const ReadOptions& options, bool* needs_more = nullptr);

}  // namespace phasor::spec
