// SPDX-License-Identifier: Apache-2.0
// phasor plot scaling: what each scaling makes of the frequency of each pair.
#include <memory>

#include "commands/plan_options.hpp"
#include "figures/figures.hpp"
#include "plot/options.hpp"

namespace phasor::cli {
namespace {

struct PlotScalingOptions {
  PlanOptions plan;
  PlotOptions plot;
};

}  // namespace

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
