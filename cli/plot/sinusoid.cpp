// SPDX-License-Identifier: Apache-2.0
// phasor plot sinusoid: the encoding's own values, position by channel, in colour.
#include <fmt/core.h>

#include <memory>

#include "number_list.hpp"
#include "plot/figures.hpp"
#include "plot/options.hpp"

namespace phasor::cli {
namespace {

struct PlotSinusoidOptions {
  SpecOptions spec;
  std::string positions = "0:100";
  PlotOptions plot;
};

}  // namespace

Result<Figure> sinusoid_figure(const NamedSpec& spec, const Numbers& wanted) {
  const auto rotary = Rotary::make(spec.spec);
  if (!rotary.ok()) return rotary.status();
  const std::size_t pairs = rotary->frequencies().size();
  std::vector<double> cosines(wanted.size() * pairs);
  std::vector<double> sines(cosines.size());
  const auto tokens = static_cast<std::int64_t>(wanted.size());
  const Extents shape{1, tokens, 1, static_cast<std::int64_t>(pairs)};
  const Status status = rotary->cos_sin(positions(wanted.data(), tokens), view(cosines.data(), shape), view(sines.data(), shape));
  if (!status.ok()) return status;
  Cells cells{.label = "value"};
  for (std::size_t i = 0; i < cosines.size(); ++i) {
    cells.values.push_back(sines[i]);
    cells.values.push_back(cosines[i]);
  }
  for (const std::int64_t position : wanted) cells.row_names.push_back(fmt::format("{}", position));
  for (std::size_t channel = 0; channel < 2 * pairs; ++channel) cells.column_names.push_back(fmt::format("{}", channel));
  Panel panel{.x = {.label = "channel (even: sine, odd: cosine)"}, .y = {.label = "position"}};
  panel.cells = std::move(cells);
  return Figure{.title = "Sinusoid: " + spec.name, .panels = {std::move(panel)}};
}

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
