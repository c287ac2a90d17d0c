// SPDX-License-Identifier: Apache-2.0
// Every position with every other, in colour.
#include <fmt/core.h>

#include "figures/figures.hpp"

namespace phasor::figures {
Result<Figure> similarity_figure(const NamedSpec& spec, const Numbers& positions) {
  const auto rotary = Rotary::make(spec.spec);
  if (!rotary.ok()) return rotary.status();
  auto matrix = similarity(*rotary, positions);
  if (!matrix.ok()) return matrix.status();
  std::vector<std::string> names;
  names.reserve(positions.size());
  for (const std::int64_t position : positions) names.push_back(fmt::format("{}", position));
  Panel panel{.x = {.label = "position"}, .y = {.label = "position"}, .square = true};
  panel.cells = Cells{.values = std::move(matrix->values), .row_names = names, .column_names = names, .label = "cosine similarity"};
  return Figure{.title = "Similarity of positions: " + spec.name, .panels = {std::move(panel)}};
}

}  // namespace phasor::figures
