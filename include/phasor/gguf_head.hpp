// SPDX-License-Identifier: Apache-2.0
// GGUF by head and ranges: for whoever cannot map a file of many gigabytes (a browser, a download), but can fetch parts of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "phasor/model.hpp"
#include "phasor/result.hpp"

namespace phasor {

/// Bytes of a file that are at hand: `bytes`, from `offset` on.
struct FilePart {
  std::uint64_t offset = 0;
  std::span<const std::byte> bytes = {};
};
/// Bytes of a file that are wanted.
struct FileRange {
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
};

/// The model, or what is still missing: give these parts too, and ask again.
struct GgufParts {
  std::optional<ModelPositions> model = std::nullopt;
  std::vector<FileRange> missing = {};  // empty where there is a model
};
/// parse_gguf of a file of `size` bytes of which only `parts` are at hand. Wanted are the head, in growing steps from offset 0 on, and then
/// the rope tensors, wherever they lie; never a weight. Whatever a file says, at most 72 MiB of its head and three small ranges are asked
/// for. Parts may overlap; one that passes the end of the file is an error.
Result<GgufParts> parse_gguf_parts(std::uint64_t size, std::span<const FilePart> parts, const ReadOptions& options = {});

}  // namespace phasor
