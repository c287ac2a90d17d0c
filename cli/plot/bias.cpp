// SPDX-License-Identifier: Apache-2.0
// phasor plot bias: what a scheme adds to the score of each query and key, a heat map for each head.
#include <memory>

#include "figures/figures.hpp"
#include "number_list.hpp"
#include "plot/options.hpp"

namespace phasor::cli {
namespace {

constexpr std::size_t kMostHeads = 12;

struct PlotBiasOptions {
  BiasFigure figure;
  std::string shown = "0,1,2,3,4,5";
  PlotOptions plot;
};

}  // namespace

void add_plot_bias(const Command& plot, Run& run) {
  const Command command = plot.subcommand("bias", "What a scheme adds to the score of each query and key, a heat map for each head");
  const auto o = std::make_shared<PlotBiasOptions>();
  command.option("--scheme", o->figure.scheme, "Which (alibi); of tables the row that is read: alibi, sandwich, t5, deberta")
      .one_of(bias_figure_schemes());
  command.option("--heads", o->figure.heads, "Heads of the model (8)").range(1, 1024);
  command.option("--show", o->shown, "Heads to draw, a list like 0,1 or 0:4, at most 12 (0:6)");
  command.option("--length", o->figure.length, "Queries and keys (48)").range(2, 512);
  add_plot_options(command, o->plot);
  command.footer("Example:\n  phasor plot bias --scheme alibi --heads 8 --out bias.svg");
  command.chosen([o, &run] {
    o->figure.shown = parse_numbers("--show", o->shown);
    if (o->figure.shown.empty() || o->figure.shown.size() > kMostHeads) throw UsageError("--show: wanted 1 to 12 heads");
    (void)format_of(o->plot);
    run = [o](std::string& out) { return finish_plot(bias_figure(o->figure), o->plot, out); };
  });
}

}  // namespace phasor::cli
