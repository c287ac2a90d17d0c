// SPDX-License-Identifier: Apache-2.0
// Lists as one string. Instead of fmt::join, whose header takes every file that includes it a second.
#pragma once

#include <fmt/core.h>

#include <string>
#include <vector>

namespace phasor::figures {

/// The values, each as fmt writes it, with `between` them.
template <class T>
std::string joined(const std::vector<T>& values, const char* between) {
  std::string text;
  for (const T& value : values) {
    if (&value != &values.front()) text += between;
    text += fmt::format("{}", value);
  }
  return text;
}

/// "a, b or c".
inline std::string listed(std::vector<std::string> names) {
  if (names.size() < 2) return joined(names, "");
  const std::string last = names.back();
  names.pop_back();
  return joined(names, ", ") + " or " + last;
}

}  // namespace phasor::figures
