// SPDX-License-Identifier: Apache-2.0
// The pictures that plot and report draw: what the library computes, put on axes.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "phasor/analysis.hpp"
#include "plot/figure.hpp"
#include "spec_list.hpp"

namespace phasor::cli {

using Numbers = std::vector<std::int64_t>;

/// 1, 2, 5, 10, 20, 50, ... up to `last`, which is always there.
Numbers one_two_five(std::int64_t last);

/// S(distance) of each spec, a curve each.
Result<Figure> decay_figure(const std::vector<NamedSpec>& specs, const Numbers& distances);
/// Cosine of each position's encoding with every other's.
Result<Figure> similarity_figure(const NamedSpec& spec, const Numbers& positions);
/// The sinusoid: sine and cosine of each pair, side by side, at each position.
Result<Figure> sinusoid_figure(const NamedSpec& spec, const Numbers& positions);
/// Where each position turns a hand to, a clock for each pair.
Result<Figure> clocks_figure(const NamedSpec& spec, const Numbers& pairs, const Numbers& positions);
/// What each scaling makes of the frequency of each pair.
Result<Figure> scaling_figure(const PlannerInput& input);
/// Error of cos and sin by numerics profile, on log axes.
Result<Figure> error_figure(const NamedSpec& spec, const Numbers& positions);

}  // namespace phasor::cli
