// SPDX-License-Identifier: Apache-2.0
// Draws figures by gnuplot or matplotlib, and writes files whole or not at all.
#pragma once

#include <string>

#include "phasor/result.hpp"
#include "plot/canvas.hpp"

namespace phasor::cli {

/// The drawn figure: an SVG document, the bytes of a PNG, or lines of text. By gnuplot; where there is none, SVG and PNG by the matplotlib
/// of a Python that has the package phasor. An error when neither is there, or the one that is refuses.
Result<std::string> draw(const Figure& figure, const Canvas& canvas);

/// Written beside `path` and renamed: a file that exists is replaced in one step, and no half of one is left. Links are replaced.
Status write_file(const std::string& path, const std::string& bytes);

}  // namespace phasor::cli
