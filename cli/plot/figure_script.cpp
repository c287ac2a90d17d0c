// SPDX-License-Identifier: Apache-2.0
// Figures to gnuplot scripts: one generator for SVG, PNG and the terminal.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "figures/joined.hpp"
#include "plot/canvas.hpp"

namespace phasor::cli {
namespace {

/// Okabe and Ito's colours, told apart by colour-blind eyes; black comes last, yellow is left out: too pale on white.
constexpr std::array<const char*, 7> kColors{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000"};
constexpr const char* kPalette =
    "set palette defined (0 '#440154', 1 '#482878', 2 '#3e4989', 3 '#31688e', 4 '#26828e', 5 '#1f9e89', 6 '#35b779', 7 '#6ece58', "
    "8 '#b5de2b', 9 '#fde725')\n";  // viridis
/// From low to high, where there is no colour.
constexpr std::string_view kShades = " .:-=+*#%@";
constexpr std::size_t kMostTicks = 9;

/// A gnuplot string: between single quotes nothing is replaced or run.
std::string quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'') out += '\'';
    out += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
  }
  return out + "'";
}

std::string number(double value) { return std::isfinite(value) ? fmt::format("{}", value) : "NaN"; }

std::string end_of(const std::optional<double>& value) { return value ? number(*value) : "*"; }

std::string terminal(const Canvas& canvas, const std::string& output) {
  switch (canvas.format) {
    case Format::svg:
      return fmt::format("set terminal svg size {},{} font 'sans-serif,14' background '#ffffff' linewidth 1.5 noenhanced\nset output {}\n",
                         canvas.width, canvas.height, quoted(output));
    case Format::png:
      return fmt::format("set terminal pngcairo size {},{} font 'sans,12' background '#ffffff' linewidth 1.5 noenhanced\nset output {}\n",
                         canvas.width, canvas.height, quoted(output));
    case Format::text:
      break;
  }
  return fmt::format("set terminal dumb size {},{} noenhanced {}\nset output {}\n", canvas.width, canvas.height,
                     canvas.color ? "ansi256" : "mono", quoted(output));
}

std::string axis_lines(char name, const Axis& axis) {
  std::string out = fmt::format("set {}label {}\n", name, quoted(axis.label));
  out += axis.log ? fmt::format("set logscale {0}\nset format {0} '1e%T'\n", name)
                  : fmt::format("unset logscale {0}\nset format {0} '%g'\n", name);
  return out + fmt::format("set {}range [{}:{}]\n", name, end_of(axis.low), end_of(axis.high));
}

/// At most kMostTicks of the names, evenly.
std::string named_ticks(char axis, const std::vector<std::string>& names) {
  std::size_t step = 1;
  for (const std::size_t nice : {1, 2, 5, 10, 20, 50, 100, 200, 500, 1000}) {
    step = nice;
    if (nice * kMostTicks >= names.size()) break;
  }
  std::vector<std::string> ticks;
  for (std::size_t i = 0; i < names.size(); i += step) ticks.push_back(fmt::format("{} {}", quoted(names[i]), i));
  return fmt::format("set {}tics ({}) nomirror out\n", axis, joined(ticks, ", "));
}

/// Lowest and highest of the finite values, as given or found.
std::pair<double, double> ends_of(const Cells& cells) {
  double low = 0;
  double high = 0;
  bool first = true;
  for (const double value : cells.values) {
    if (!std::isfinite(value)) continue;
    low = first ? value : std::min(low, value);
    high = first ? value : std::max(high, value);
    first = false;
  }
  low = cells.low.value_or(low);
  high = cells.high.value_or(high);
  return {low, high > low ? high : low + 1};
}

char shade_of(double value, double low, double high) {
  if (!std::isfinite(value)) return '?';
  const double place = std::clamp((value - low) / (high - low), 0.0, 1.0);
  return kShades[std::min(kShades.size() - 1, static_cast<std::size_t>(place * static_cast<double>(kShades.size())))];
}

/// Cells without colour: a character each, and what the first and the last stand for.
std::string shaded_cells(const Cells& cells, const std::string& title) {
  const auto [low, high] = ends_of(cells);
  std::string out = fmt::format(
      "unset colorbox\nset title {}\n$cells << EOD\n",
      quoted(fmt::format("{}  ({}: '{}' {:.3g} to '{}' {:.3g})", title, cells.label, kShades.front(), low, kShades.back(), high)));
  const std::size_t columns = cells.column_names.size();
  for (std::size_t i = 0; i < cells.values.size(); ++i)
    out += fmt::format("{} {} \"{}\"\n", i % columns, i / columns, shade_of(cells.values[i], low, high));
  return out + "EOD\nplot $cells using 1:2:3 with labels notitle\n";
}

std::string colored_cells(const Cells& cells) {
  const auto [low, high] = ends_of(cells);
  std::string out =
      fmt::format("set colorbox\nset cblabel {}\nset cbrange [{}:{}]\n$cells << EOD\n", quoted(cells.label), number(low), number(high));
  const std::size_t columns = cells.column_names.size();
  for (std::size_t i = 0; i < cells.values.size(); ++i)
    out += fmt::format("{:.6g}{}", cells.values[i], (i + 1) % columns == 0 ? '\n' : ' ');
  return out + "EOD\nplot $cells matrix with image notitle\n";
}

std::string cells_lines(const Cells& cells, const std::string& title, const Canvas& canvas) {
  std::string out = named_ticks('x', cells.column_names) + named_ticks('y', cells.row_names);
  out += fmt::format("unset grid\nset xrange [-0.5:{}.5]\nset yrange [{}.5:-0.5]\n", cells.column_names.size() - 1,
                     cells.row_names.size() - 1);
  const bool shaded = canvas.format == Format::text && !canvas.color;
  return out + (shaded ? shaded_cells(cells, title) : colored_cells(cells));
}

const char* style_of(Mark mark) {
  switch (mark) {
    case Mark::line:
      return "using 1:2 with lines";
    case Mark::points:
      return "using 1:2 with points pointtype 7 pointsize 0.6";
    case Mark::line_and_points:
      return "using 1:2 with linespoints pointtype 7 pointsize 0.5";
    case Mark::arrows:
      return "using (0):(0):1:2 with vectors head filled size graph 0.06,20";
  }
  return "";
}

std::string curves_lines(const Panel& panel) {
  std::string blocks;
  std::vector<std::string> plots;
  for (std::size_t i = 0; i < panel.curves.size(); ++i) {
    const Curve& curve = panel.curves[i];
    blocks += fmt::format("$curve{} << EOD\n", i);
    for (std::size_t k = 0; k < curve.x.size(); ++k) blocks += fmt::format("{} {}\n", number(curve.x[k]), number(curve.y[k]));
    blocks += "EOD\n";
    const auto color = static_cast<std::size_t>(curve.color.value_or(static_cast<int>(i)));
    plots.push_back(fmt::format("$curve{} {} linewidth 1.5 linecolor rgb '{}' dashtype {} {}", i, style_of(curve.mark),
                                kColors[color % kColors.size()], curve.dashed || color >= kColors.size() ? 2 : 1,
                                curve.name.empty() ? "notitle" : "title " + quoted(curve.name)));
  }
  return blocks + fmt::format("plot {}\n", joined(plots, ", \\\n  "));
}

std::string panel_lines(const Panel& panel, const Canvas& canvas) {
  std::string out = fmt::format("set title {}\n", quoted(panel.title)) + axis_lines('x', panel.x) + axis_lines('y', panel.y);
  out += panel.square ? "set size ratio -1\n" : "set size noratio\n";
  if (panel.cells) return out + cells_lines(*panel.cells, panel.title, canvas);
  if (panel.circle) {
    out += "unset key\nunset border\nunset tics\nunset grid\n";
    return out + fmt::format("set object 1 circle at 0,0 size {} fillstyle empty border linecolor rgb '#999999'\n", number(*panel.circle)) +
           curves_lines(panel);
  }
  const auto named = std::count_if(panel.curves.begin(), panel.curves.end(), [](const Curve& c) { return !c.name.empty(); });
  out += named > 0
             ? fmt::format("set key below left Left reverse vertical maxrows {} samplen 2 height 0.6 width 2\n", named > 4 ? 4 : named)
             : "unset key\n";
  return out + "set autoscale xfix\nset xtics autofreq\nset ytics autofreq\nset grid linetype 1 linecolor rgb '#dddddd'\n" +
         curves_lines(panel);
}

/// Names in their colours, in a row at the bottom. They are labels, so the first panel draws them.
std::string legend_lines(const Figure& figure) {
  std::string out = figure.legend.empty() ? "" : "set bmargin 2.5\n";
  for (std::size_t i = 0; i < figure.legend.size(); ++i) {
    out += fmt::format("set label {} {} at screen {:.4f},0.03 center textcolor rgb '{}'\n", i + 1, quoted(figure.legend[i]),
                       (static_cast<double>(i) + 0.5) / static_cast<double>(figure.legend.size()), kColors[i % kColors.size()]);
  }
  return out;
}

}  // namespace

std::string gnuplot_script(const Figure& figure, const Canvas& canvas, const std::string& output) {
  std::string out = terminal(canvas, output) + kPalette + "set encoding utf8\nset border linecolor rgb '#444444'\n";
  const std::size_t columns = static_cast<std::size_t>(std::max(figure.columns, 1));
  const bool several = figure.panels.size() > 1;
  if (several) {
    out +=
        fmt::format("set multiplot layout {},{} title {}\n", (figure.panels.size() + columns - 1) / columns, columns, quoted(figure.title));
  }
  out += legend_lines(figure);
  for (const Panel& panel : figure.panels) {
    Panel titled = panel;
    if (!several) titled.title = figure.title;
    out += panel_lines(titled, canvas);
    if (&panel == &figure.panels.front()) out += "unset label\n";
  }
  if (several) out += "unset multiplot\n";
  return out + "unset output\n";
}

}  // namespace phasor::cli
