// SPDX-License-Identifier: Apache-2.0
// Reads lists of positions.
#include "number_list.hpp"

#include <fmt/core.h>

#include <charconv>

#include "parser.hpp"

namespace phasor::cli {
namespace {

constexpr std::size_t kMostNumbers = 1000000;

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == separator) {
      parts.emplace_back();
    } else {
      parts.back().push_back(c);
    }
  }
  return parts;
}

[[noreturn]] void refuse(const std::string& option, const std::string& text) {
  throw UsageError(fmt::format("{}: {} is no list of whole numbers, wanted 1,10,100 or begin:end or begin:end:step", option, text));
}

std::int64_t parse_number(const std::string& option, const std::string& text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) refuse(option, text);
  return number;
}

/// begin, begin + step, ... below end.
void append_range(const std::string& option, const std::vector<std::string>& ends, std::vector<std::int64_t>& numbers) {
  const std::int64_t end = parse_number(option, ends[1]);
  const std::int64_t step = ends.size() == 3 ? parse_number(option, ends[2]) : 1;
  if (step < 1) refuse(option, ends[2]);
  for (std::int64_t number = parse_number(option, ends[0]); number < end; number += step) {
    numbers.push_back(number);
    if (numbers.size() > kMostNumbers) return;
    if (end - 1 - number < step && number >= 0) return;  // the next would be past the end, and might not fit in 64 bits
  }
}

}  // namespace

std::vector<std::int64_t> parse_numbers(const std::string& option, const std::string& text) {
  std::vector<std::int64_t> numbers;
  for (const std::string& part : split(text, ',')) {
    const std::vector<std::string> ends = split(part, ':');
    if (ends.size() > 3) refuse(option, part);
    if (ends.size() == 1) {
      numbers.push_back(parse_number(option, part));
    } else {
      append_range(option, ends, numbers);
    }
    if (numbers.size() > kMostNumbers) throw UsageError(fmt::format("{}: wanted at most {} numbers", option, kMostNumbers));
  }
  return numbers;
}

}  // namespace phasor::cli
