// SPDX-License-Identifier: Apache-2.0
// phasor plot clocks: the hands that positions turn, a clock for each chosen pair.
#include <fmt/core.h>

#include <memory>

#include "number_list.hpp"
#include "plot/figures.hpp"
#include "plot/options.hpp"

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

struct Hands {
  std::vector<double> cos;  // (position, pair)
  std::vector<double> sin;
  std::size_t pairs = 0;
};

Result<Hands> hands_of(const Rotary& rotary, const Numbers& wanted) {
  Hands hands{{}, {}, rotary.frequencies().size()};
  hands.cos.resize(wanted.size() * hands.pairs);
  hands.sin.resize(hands.cos.size());
  const auto tokens = static_cast<std::int64_t>(wanted.size());
  const Extents shape{1, tokens, 1, static_cast<std::int64_t>(hands.pairs)};
  const Status status = rotary.cos_sin(positions(wanted.data(), tokens), view(hands.cos.data(), shape), view(hands.sin.data(), shape));
  if (!status.ok()) return status;
  return hands;
}

/// The first, the last, and some between.
Numbers some_pairs(std::size_t pairs) {
  Numbers some;
  for (std::size_t i = 0; i < 6; ++i) {
    const auto pair = static_cast<std::int64_t>((pairs - 1) * i / 5);
    if (some.empty() || some.back() != pair) some.push_back(pair);
  }
  return some;
}

std::string title_of(std::size_t pair, double wavelength) {
  return fmt::format("pair {}: a turn in {:.{}f}", pair, wavelength, wavelength < 100 ? 1 : 0);
}

Panel clock_of(const Rotary& rotary, const Hands& hands, std::size_t pair) {
  Panel panel{.title = title_of(pair, wavelengths(rotary)[pair]), .square = true};
  panel.circle = rotary.amplitude();
  for (Axis* axis : {&panel.x, &panel.y}) {
    axis->low = -1.05 * rotary.amplitude();
    axis->high = 1.05 * rotary.amplitude();
  }
  for (std::size_t i = pair; i < hands.cos.size(); i += hands.pairs) {
    panel.curves.push_back({.x = {hands.cos[i]}, .y = {hands.sin[i]}, .mark = Mark::arrows});
  }
  return panel;
}

}  // namespace

Result<Figure> clocks_figure(const NamedSpec& spec, const Numbers& pairs, const Numbers& positions) {
  const auto rotary = Rotary::make(spec.spec);
  if (!rotary.ok()) return rotary.status();
  const auto hands = hands_of(*rotary, positions);
  if (!hands.ok()) return hands.status();
  Figure figure{.title = "Where positions turn pairs to: " + spec.name, .columns = 3};
  for (const std::int64_t pair : pairs.empty() ? some_pairs(hands->pairs) : pairs) {
    if (pair < 0 || pair >= static_cast<std::int64_t>(hands->pairs)) {
      return Status::invalid(fmt::format("--pairs: pair is {}, wanted 0 to {}", pair, hands->pairs - 1));
    }
    figure.panels.push_back(clock_of(*rotary, *hands, static_cast<std::size_t>(pair)));
  }
  for (const std::int64_t position : positions) figure.legend.push_back(fmt::format("position {}", position));
  return figure;
}

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
