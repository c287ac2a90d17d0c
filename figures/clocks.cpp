// SPDX-License-Identifier: Apache-2.0
// The hands that positions turn, a clock for each chosen pair.
#include <fmt/core.h>

#include "figures/figures.hpp"

namespace phasor::figures {
namespace {

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

}  // namespace phasor::figures
