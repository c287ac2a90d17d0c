// SPDX-License-Identifier: Apache-2.0
// Which rows of which tensors a change of pairing moves, and the moving, in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "phasor/weights.hpp"
#include "spec/files/safetensors.hpp"

namespace phasor::ops {

/// The heads at the beginning of a tensor's rows that are permuted; what follows them (v of a fused one) is not.
struct PermutedRows {
  std::int64_t heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t rotary_width = 0;
  std::int64_t rotary_offset = 0;
  std::int64_t row_bytes = 0;
};

/// Heads and widths that contradict each other. Throws spec::ReadError.
void check_shape(const PermuteOptions& options);

/// Nothing for a tensor that the pairing does not concern. Throws spec::ReadError for one that it does but that cannot be permuted.
std::optional<PermutedRows> permuted_rows(std::string_view name, const spec::SafetensorsTensor& tensor, const PermuteOptions& options);

/// Copies the tensor's bytes with the rows in their new order; `in` and `out` have the tensor's size and do not overlap.
void permute_rows(std::span<const std::byte> in, std::span<std::byte> out, const PermutedRows& rows, const PermuteOptions& options);

}  // namespace phasor::ops
