// SPDX-License-Identifier: Apache-2.0
// phasor plot similarity: every position with every other, in colour.
#include <memory>

#include "figures/figures.hpp"
#include "number_list.hpp"
#include "plot/options.hpp"
#include "spec_options.hpp"

namespace phasor::cli {
namespace {

struct PlotSimilarityOptions {
  SpecOptions spec;
  std::string positions = "0:128";
  PlotOptions plot;
};

}  // namespace

void add_plot_similarity(const Command& plot, Run& run) {
  const Command command = plot.subcommand("similarity", "Cosine similarity of every position with every other, as a heat map");
  const auto o = std::make_shared<PlotSimilarityOptions>();
  add_spec_options(command, o->spec);
  command.option("--positions", o->positions, "Which: 1,10,100 or 0:11 (0 to 10) or 0:100:10 (0:128)");
  add_plot_options(command, o->plot);
  command.footer("Example:\n  phasor plot similarity --head-dim 64 --positions 0:64 --out similarity.png");
  command.chosen([o, &run] {
    const RotarySpec spec = spec_of(o->spec);
    const Numbers positions = parse_numbers("--positions", o->positions);
    (void)format_of(o->plot);
    run = [o, spec, positions](std::string& out) {
      return finish_plot(similarity_figure({label_of(spec), spec}, positions), o->plot, out);
    };
  });
}

}  // namespace phasor::cli
