// SPDX-License-Identifier: Apache-2.0
// phasor plot error: how far cos and sin are off by position, on log axes, a curve for each numerics profile.
#include <memory>

#include "figures/figures.hpp"
#include "number_list.hpp"
#include "plot/options.hpp"
#include "spec_options.hpp"

namespace phasor::cli {
namespace {

constexpr std::int64_t kFar = 10000000;

struct PlotErrorOptions {
  SpecOptions spec;
  std::string positions;
  PlotOptions plot;
};

}  // namespace

void add_plot_error(const Command& plot, Run& run) {
  const Command command = plot.subcommand("error", "Error of cos and sin by position, a curve for each numerics profile");
  const auto o = std::make_shared<PlotErrorOptions>();
  add_spec_options(command, o->spec);
  command.option("--positions", o->positions, "Where: 1,10,100 or 0:11 (0 to 10) or 0:100:10 (1, 2, 5, 10, ... 10^7)");
  add_plot_options(command, o->plot);
  command.footer("Example:\n  phasor plot error --model llama3.1 --out error.svg");
  command.chosen([o, &run] {
    const RotarySpec spec = spec_of(o->spec);
    if (o->spec.numerics != "exact") throw UsageError("plot error takes no --numerics: it shows all of them");
    const Numbers positions = o->positions.empty() ? one_two_five(kFar) : parse_numbers("--positions", o->positions);
    (void)format_of(o->plot);
    run = [o, spec, positions](std::string& out) { return finish_plot(error_figure({label_of(spec), spec}, positions), o->plot, out); };
  });
}

}  // namespace phasor::cli
