// SPDX-License-Identifier: Apache-2.0
// The encoding's own values, position by channel, in colour.
#include <fmt/core.h>

#include "figures/figures.hpp"

namespace phasor::figures {
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

}  // namespace phasor::figures
