// SPDX-License-Identifier: Apache-2.0
// What every plot command has in common: where to draw, how large, and drawing.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "command.hpp"
#include "plot/canvas.hpp"

namespace phasor::cli {

struct PlotOptions {
  std::string out;  // empty: the terminal
  std::optional<int> width;
  std::optional<int> height;
  bool script = false;
  bool json = false;
};

/// `options` must outlive the parsing.
void add_plot_options(const Command& command, PlotOptions& options);

/// Throws UsageError for a file name that is neither .svg nor .png.
Format format_of(const PlotOptions& options);

/// Draws into the file, or appends the drawing (or the script, or the numbers) to `out`.
Status finish_plot(const Result<Figure>& figure, const PlotOptions& options, std::string& out);

void add_plot_bias(const Command& plot, Run& run);
void add_plot_clocks(const Command& plot, Run& run);
void add_plot_decay(const Command& plot, Run& run);
void add_plot_error(const Command& plot, Run& run);
void add_plot_scaling(const Command& plot, Run& run);
void add_plot_similarity(const Command& plot, Run& run);
void add_plot_sinusoid(const Command& plot, Run& run);

}  // namespace phasor::cli
