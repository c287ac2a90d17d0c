// SPDX-License-Identifier: Apache-2.0
// What each scaling makes of the frequency of each pair.
#include <fmt/core.h>

#include <algorithm>

#include "figures/figures.hpp"

namespace phasor::figures {
namespace {

/// The last of the palette: the others go to what is compared.
constexpr int kTrainedColor = 6;

}  // namespace

Result<Figure> scaling_figure(const PlannerInput& input) {
  const auto planned = plan_scalings(input);
  if (!planned.ok()) return planned.status();
  Panel panel{.x = {.label = "pair"}, .y = {.label = "frequency / frequency as trained", .low = 0, .high = 1.05}};
  for (const PlannedScaling& one : *planned) {
    if (!one.error.empty()) continue;
    Curve curve{.name = one.unseen_from ? fmt::format("{}: seen up to {}", one.name, *one.unseen_from) : one.name + ": all seen"};
    for (std::size_t pair = 0; pair < one.pairs.size(); ++pair) {
      curve.x.push_back(static_cast<double>(pair));
      curve.y.push_back(one.pairs[pair].ratio);
    }
    const bool trained = &one == &planned->front();
    curve.color = trained ? kTrainedColor : static_cast<int>(panel.curves.size()) - 1;
    // What is the same as another is dashed, so that both are seen.
    curve.dashed = std::any_of(panel.curves.begin(), panel.curves.end(), [&](const Curve& other) { return other.y == curve.y; });
    panel.curves.push_back(std::move(curve));
  }
  return Figure{.title = fmt::format("Scalings from {} to {} positions", input.trained_length, input.wanted_length),
                .panels = {std::move(panel)}};
}

}  // namespace phasor::figures
