// SPDX-License-Identifier: Apache-2.0
// S by distance, of one encoding or of several.
#include <fmt/core.h>

#include "figures/figures.hpp"

namespace phasor::figures {
Result<Figure> decay_figure(const std::vector<NamedSpec>& specs, const Numbers& distances, bool log) {
  const auto rotaries = rotaries_of(specs);
  if (!rotaries.ok()) return rotaries.status();
  Panel panel{.x = {.label = "distance (positions)", .log = log}, .y = {.label = "S: score of q and k, length 1 in each pair"}};
  const std::vector<double> x(distances.begin(), distances.end());
  for (std::size_t i = 0; i < specs.size(); ++i) {
    auto sums = decay((*rotaries)[i], distances);
    if (!sums.ok()) return sums.status();
    panel.curves.push_back({.name = specs[i].name, .x = x, .y = *std::move(sums)});
  }
  return Figure{.title = "Decay of the score with distance", .panels = {std::move(panel)}};
}

}  // namespace phasor::figures
