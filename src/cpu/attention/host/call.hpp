// SPDX-License-Identifier: Apache-2.0
// The steps of prepare, in their order, and what they share.
#pragma once

#include <cstdint>

#include "cpu/attention/host/prepare.hpp"
#include "cpu/common/runner.hpp"
#include "phasor/attention.hpp"

namespace phasor::attend {

DropoutJob dropout_of(const Dropout& dropout);

/// Positions farther than this from 0 are an error, so that distances do not overflow.
constexpr std::int64_t kFarthest = std::int64_t{1} << 61;

/// Positions, sequences, tiles, distances, mask. A tile spans at most `span` positions.
Status make_layout(const Call& call, std::int64_t span, Arena& arena, Prepared& out);
/// The span of positions that a tile of keys or queries may have for the content's factors to stay within float32.
std::int64_t tile_span(const job::ContentJob& content);

/// Contents, rotated copies, decay, shift.
Status make_contents(const Call& call, Arena& arena, Prepared& out);

using cpu::run_each;
/// Whether sequences begin where lists say.
inline bool is_varlen(const job::VisibilityJob& see) { return see.query_starts.size > 0 || see.key_starts.size > 0; }

}  // namespace phasor::attend
