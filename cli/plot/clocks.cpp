// SPDX-License-Identifier: Apache-2.0
// phasor plot clocks: the hands that positions turn, a clock for each chosen pair.
#include <memory>

#include "figures/figures.hpp"
#include "number_list.hpp"
#include "plot/options.hpp"
#include "spec_options.hpp"

namespace phasor::cli {
namespace {

/// As many as there are colours: more hands could not be told apart.
constexpr std::size_t kMostHands = 7;
constexpr std::size_t kMostClocks = 12;

struct PlotClocksOptions {
  SpecOptions spec;
  std::string pairs;
  std::string positions = "0,1,10,100,1000";
  PlotOptions plot;
};

}  // namespace

void add_plot_clocks(const Command& plot, Run& run) {
  const Command command = plot.subcommand("clocks", "Where positions turn chosen pairs to, a clock for each");
  const auto o = std::make_shared<PlotClocksOptions>();
  add_spec_options(command, o->spec);
  command.option("--pairs", o->pairs, "Which, a list like --positions, at most 12 (six from the first to the last)");
  command.option("--positions", o->positions, "Hands: 1,10,100 or 0:11 (0 to 10) or 0:100:10, at most 7 (0,1,10,100,1000)");
  add_plot_options(command, o->plot);
  command.footer("Example:\n  phasor plot clocks --head-dim 8 --pairs 0:4 --positions 0,1,2,3 --out clocks.svg");
  command.chosen([o, &run] {
    const RotarySpec spec = spec_of(o->spec);
    const Numbers positions = parse_numbers("--positions", o->positions);
    const Numbers pairs = o->pairs.empty() ? Numbers{} : parse_numbers("--pairs", o->pairs);
    if (positions.empty() || positions.size() > kMostHands) throw UsageError("--positions: wanted 1 to 7 of them");
    if (pairs.size() > kMostClocks) throw UsageError("--pairs: wanted at most 12 of them");
    (void)format_of(o->plot);
    run = [=](std::string& out) { return finish_plot(clocks_figure({label_of(spec), spec}, pairs, positions), o->plot, out); };
  });
}

}  // namespace phasor::cli
