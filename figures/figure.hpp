// SPDX-License-Identifier: Apache-2.0
// A picture before it is drawn: panels of curves or of cells. Holds numbers, computes none.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace phasor::figures {

struct Axis {
  std::string label = {};  // with its unit
  bool log = false;
  std::optional<double> low = std::nullopt;  // not given: as the data has it
  std::optional<double> high = std::nullopt;
};

enum class Mark : std::uint8_t { line, points, line_and_points, arrows };

/// Points, joined or not. Arrows go from the origin to each point. Points that are not finite, or not positive on a log axis, are gaps.
struct Curve {
  std::string name = {};  // in the legend; empty: not there
  std::vector<double> x = {};
  std::vector<double> y = {};
  Mark mark = Mark::line;
  std::optional<int> color = std::nullopt;  // of the palette; not given: by its place among the curves
  bool dashed = false;
};

/// A value in each cell, drawn in colour with a colour bar; row 0 at the top.
struct Cells {
  std::vector<double> values = {};  // (rows, columns)
  std::vector<std::string> row_names = {};
  std::vector<std::string> column_names = {};
  std::string label = {};  // of the colour bar
  std::optional<double> low = std::nullopt;
  std::optional<double> high = std::nullopt;
};

struct Panel {
  std::string title = {};
  Axis x = {};
  Axis y = {};
  std::vector<Curve> curves = {};
  std::optional<Cells> cells = std::nullopt;    // instead of curves
  bool square = false;                          // a unit of x is as long as one of y
  std::optional<double> circle = std::nullopt;  // a circle of this radius around the origin, instead of axes
};

struct Figure {
  std::string title = {};
  std::vector<Panel> panels = {};
  int columns = 1;                       // of panels
  std::vector<std::string> legend = {};  // of the colours, for all panels together
};

/// Everything of the figure: matplotlib draws from it where there is no gnuplot, and the playground's page.
std::string to_json(const Figure& figure);

}  // namespace phasor::figures
