// SPDX-License-Identifier: Apache-2.0
// Reads lists of positions.
#include "number_list.hpp"

#include "parser.hpp"

namespace phasor::cli {

Numbers parse_numbers(const std::string& option, const std::string& text) {
  auto numbers = read_numbers(option, text);
  if (!numbers.ok()) throw UsageError(numbers.status().message());
  return *std::move(numbers);
}

}  // namespace phasor::cli
