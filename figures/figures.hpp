// SPDX-License-Identifier: Apache-2.0
// The pictures that plot, report and the playground draw: what the library computes, put on axes.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "figures/figure.hpp"
#include "figures/number_list.hpp"
#include "figures/spec_words.hpp"
#include "phasor/analysis.hpp"

namespace phasor::figures {

/// 1, 2, 5, 10, 20, 50, ... up to `last`, which is always there.
Numbers one_two_five(std::int64_t last);

/// S(distance) of each spec, a curve each; `log`: distances on a log axis.
Result<Figure> decay_figure(const std::vector<NamedSpec>& specs, const Numbers& distances, bool log = false);
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
/// What a scheme adds to the score of each query and key, cells for each head that is shown; of tables the row that is read.
struct BiasFigure {
  std::string scheme = "alibi";  // alibi, sandwich, t5, deberta
  std::int64_t heads = 8;
  Numbers shown = {0, 1, 2, 3, 4, 5};
  std::int64_t length = 48;
};
const std::vector<std::string>& bias_figure_schemes();
Result<Figure> bias_figure(const BiasFigure& wanted);

}  // namespace phasor::figures
