// SPDX-License-Identifier: Apache-2.0
// phasor plot: pictures into a file or onto the terminal.
#include <fmt/core.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <filesystem>

#include "plot/draw.hpp"
#include "plot/options.hpp"
#include "progress.hpp"

namespace phasor::cli {
namespace {

constexpr int kTextWidth = 100;
constexpr int kTextHeight = 32;

/// Of the terminal, or what fits on most where there is none.
Canvas text_canvas() {
  winsize size{};
  const bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 1;
  return {.format = Format::text,
          .width = known ? size.ws_col : kTextWidth,
          .height = known ? size.ws_row - 1 : kTextHeight,
          .color = colors_wanted()};
}

Canvas canvas_of(const PlotOptions& options) {
  Canvas canvas = options.out.empty() ? text_canvas() : Canvas{.format = format_of(options)};
  canvas.width = options.width.value_or(canvas.width);
  canvas.height = options.height.value_or(canvas.height);
  return canvas;
}

}  // namespace

void add_plot_options(const Command& command, PlotOptions& options) {
  command.option("--out,-o", options.out, "Writes a .svg or .png file (draws on the terminal)");
  command.option("--width", options.width, "Pixels (800), or characters of the terminal").range(40, 8192);
  command.option("--height", options.height, "Pixels (520), or lines of the terminal").range(10, 8192);
  const Option script = command.flag("--script", options.script, "Print the gnuplot script, draw nothing");
  command.flag("--json", options.json, "Print JSON, the numbers of the picture in full, draw nothing").excludes(script);
}

Format format_of(const PlotOptions& options) {
  const std::string extension = std::filesystem::path(options.out).extension().string();
  if (options.out.empty()) return Format::text;
  if (extension == ".svg") return Format::svg;
  if (extension == ".png") return Format::png;
  throw UsageError(fmt::format("--out: {} is of no format, wanted a name that ends in .svg or .png", options.out));
}

Status finish_plot(const Result<Figure>& figure, const PlotOptions& options, std::string& out) {
  if (!figure.ok()) return figure.status();
  if (options.json) {
    out += to_json(*figure);
    return {};
  }
  const Canvas canvas = canvas_of(options);
  if (options.script) {
    out += gnuplot_script(*figure, canvas, canvas.format == Format::text ? "/dev/stdout" : options.out);
    return {};
  }
  const auto drawn = draw(*figure, canvas);
  if (!drawn.ok()) return drawn.status();
  if (!options.out.empty()) return write_file(options.out, *drawn);
  out += *drawn;
  return {};
}

void add_plot(const Command& tool, Run& run) {
  const Command plot = tool.subcommand("plot", "Pictures: SVG, PNG or on the terminal, by gnuplot (files also by matplotlib)");
  plot.require_subcommand();
  plot.footer("Example:\n  phasor plot decay --model llama3.1 --out decay.svg");
  for (const auto add :
       {add_plot_decay, add_plot_similarity, add_plot_sinusoid, add_plot_clocks, add_plot_scaling, add_plot_error, add_plot_bias})
    add(plot, run);
}

}  // namespace phasor::cli
