// SPDX-License-Identifier: Apache-2.0
// Runs gnuplot on figures, and writes files whole or not at all.
#pragma once

#include <string>

#include "phasor/result.hpp"
#include "plot/figure.hpp"

namespace phasor::cli {

/// The drawn figure: an SVG document, the bytes of a PNG, or lines of text. An error when gnuplot is missing or refuses.
Result<std::string> draw(const Figure& figure, const Canvas& canvas);

/// Written beside `path` and renamed: a file that exists is replaced in one step, and no half of one is left. Links are replaced.
Status write_file(const std::string& path, const std::string& bytes);

}  // namespace phasor::cli
