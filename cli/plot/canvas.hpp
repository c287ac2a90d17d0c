// SPDX-License-Identifier: Apache-2.0
// What a figure is drawn on, and the script that draws it.
#pragma once

#include <cstdint>
#include <string>

#include "figures/figure.hpp"
#include "uses.hpp"

namespace phasor::cli {

enum class Format : std::uint8_t { svg, png, text };

/// What is drawn on: pixels, or characters for text.
struct Canvas {
  Format format = Format::svg;
  int width = 800;
  int height = 520;
  bool color = true;  // of text
};

/// The script that makes gnuplot draw the figure into the file `output` (text: onto standard output). Data is in the script.
std::string gnuplot_script(const Figure& figure, const Canvas& canvas, const std::string& output);

}  // namespace phasor::cli
