// SPDX-License-Identifier: Apache-2.0
// Analysis, one pair or one axis at a time: which pairs lose their angle first, and what each axis of a position adds to a score.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "phasor/analysis.hpp"

namespace phasor {

/// Errors of the float32 tables of one numerics profile: the larger one of cos and sin (amplitude included), (positions, R/2).
struct PairErrors {
  Numerics numerics = Numerics::exact;
  Matrix errors;
};
/// exact, hf, vllm and ggml, without those whose peer does not have the spec's scaling; the largest of a row is what profile_errors has.
/// The numerics of `spec` are not looked at; along every axis the position is the same. At most 2^22 positions times pairs. Per-channel
/// frequencies and heads with directions of their own are unsupported.
Result<std::vector<PairErrors>> pair_errors(const RotarySpec& spec, std::span<const std::int64_t> positions);

/// Scores of one query with every key, q and k of length 1 in each pair, over what the query scores with itself: 1 there.
struct AxisScores {
  std::vector<double> score;                // (T)
  Matrix by_axis;                           // (axes, T)
  std::vector<std::int64_t> pairs_of_axis;  // empty where every pair turns along all axes
};
/// Tokens at `positions`, (axes, 1, T) or (1, 1, T), the query being the one of that number. by_axis: the part of the pairs of each axis,
/// so that they sum to the score. Where every pair turns along a direction (GivenDirections, of `head`) there are no such parts: it is
/// then what the query would score if the token differed from it along that axis alone. At most 2^16 tokens. Per-channel frequencies are
/// unsupported; the numerics of the spec are not looked at.
Result<AxisScores> axis_scores(const Rotary& rotary, const Positions& positions, std::int64_t query, std::int64_t head = 0);

}  // namespace phasor
