// SPDX-License-Identifier: Apache-2.0
// phasor plot scaling: what each scaling makes of the frequency of each pair.
#include <fmt/core.h>

#include <algorithm>
#include <memory>

#include "commands/plan_options.hpp"
#include "plot/figures.hpp"
#include "plot/options.hpp"

namespace phasor::cli {
namespace {

/// The last of the palette: the others go to what is compared.
constexpr int kTrainedColor = 6;

struct PlotScalingOptions {
  PlanOptions plan;
  PlotOptions plot;
};

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

void add_plot_scaling(const Command& plot, Run& run) {
  const Command command = plot.subcommand("scaling", "What each scaling makes of the frequency of each pair");
  const auto o = std::make_shared<PlotScalingOptions>();
  add_plan_options(command, o->plan);
  add_plot_options(command, o->plot);
  command.footer("Example:\n  phasor plot scaling --trained-length 4096 --wanted-length 32768 --out scaling.svg");
  command.chosen([o, &run] {
    const PlannerInput input = planner_input(o->plan);
    (void)format_of(o->plot);
    run = [o, input](std::string& out) { return finish_plot(scaling_figure(input), o->plot, out); };
  });
}

}  // namespace phasor::cli
