// SPDX-License-Identifier: Apache-2.0
// The one file with fmt's code; it is compiled with FMT_HEADER_ONLY.
#include "spec/format.hpp"

#include <fmt/format.h>

#include "spec/utf8.hpp"

namespace phasor::spec {

std::string formatted(fmt::string_view text, fmt::format_args args) { return printable_utf8(fmt::vformat(text, args)); }

}  // namespace phasor::spec
