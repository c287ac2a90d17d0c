// SPDX-License-Identifier: Apache-2.0
// Text of messages: fmt in format.cpp alone (it took four seconds per file). What comes out is valid UTF-8, whatever goes in (utf8.hpp).
#pragma once

#include <fmt/core.h>

#include <string>

namespace phasor::spec {

std::string formatted(fmt::string_view text, fmt::format_args args);

template <class... Args>
std::string format(fmt::format_string<Args...> text, Args&&... args) {
  return formatted(text, fmt::make_format_args(args...));
}

}  // namespace phasor::spec
