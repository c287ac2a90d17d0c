// SPDX-License-Identifier: Apache-2.0
// phasor plot sinusoid: the encoding's own values, position by channel, in colour.
#include <memory>

#include "figures/figures.hpp"
#include "number_list.hpp"
#include "plot/options.hpp"
#include "spec_options.hpp"

namespace phasor::cli {
namespace {

struct PlotSinusoidOptions {
  SpecOptions spec;
  std::string positions = "0:100";
  PlotOptions plot;
};

}  // namespace

void add_plot_sinusoid(const Command& plot, Run& run) {
  const Command command = plot.subcommand("sinusoid", "Sine and cosine of each pair at each position, as a heat map");
  const auto o = std::make_shared<PlotSinusoidOptions>();
  add_spec_options(command, o->spec);
  command.option("--positions", o->positions, "Which: 1,10,100 or 0:11 (0 to 10) or 0:100:10 (0:100)");
  add_plot_options(command, o->plot);
  command.footer("Example:\n  phasor plot sinusoid --head-dim 64 --out sinusoid.svg");
  command.chosen([o, &run] {
    const RotarySpec spec = spec_of(o->spec);
    const Numbers positions = parse_numbers("--positions", o->positions);
    (void)format_of(o->plot);
    run = [o, spec, positions](std::string& out) { return finish_plot(sinusoid_figure({label_of(spec), spec}, positions), o->plot, out); };
  });
}

}  // namespace phasor::cli
