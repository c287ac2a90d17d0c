// SPDX-License-Identifier: Apache-2.0
// phasor plot decay: S by distance, of one encoding or of several.
#include <memory>

#include "figures/figures.hpp"
#include "number_list.hpp"
#include "plot/options.hpp"
#include "spec_list.hpp"

namespace phasor::cli {
namespace {

struct PlotDecayOptions {
  SpecList specs;
  std::string distances = "0:2049:4";
  bool log = false;
  PlotOptions plot;
};

}  // namespace

void add_plot_decay(const Command& plot, Run& run) {
  const Command command = plot.subcommand("decay", "S by distance, a curve for each encoding");
  const auto o = std::make_shared<PlotDecayOptions>();
  add_spec_list(command, o->specs);
  command.option("--distances", o->distances, "Where: 1,10,100 or 0:11 (0 to 10) or 0:100:10 (0:2049:4)");
  command.flag("--log", o->log, "Distances on a log axis");
  add_plot_options(command, o->plot);
  command.footer("Example:\n  phasor plot decay --base 10000 --against \"base=500000\" --against \"model=llama3.1\" --out decay.svg");
  command.chosen([o, &run] {
    const std::vector<NamedSpec> specs = specs_of(o->specs);
    const Numbers distances = parse_numbers("--distances", o->distances);
    (void)format_of(o->plot);
    run = [o, specs, distances](std::string& out) { return finish_plot(decay_figure(specs, distances, o->log), o->plot, out); };
  });
}

}  // namespace phasor::cli
