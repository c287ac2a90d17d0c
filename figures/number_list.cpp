// SPDX-License-Identifier: Apache-2.0
// Reads lists of positions.
#include "figures/number_list.hpp"

#include <fmt/core.h>

#include <charconv>
#include <cmath>
#include <optional>

#include "phasor/additive.hpp"

namespace phasor::figures {
namespace {

constexpr std::size_t kMostNumbers = 1000000;
constexpr std::int64_t kMostRatios = 1024;

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

Status refuse(const std::string& option, const std::string& text) {
  return Status::invalid(fmt::format("{}: {} is no list of whole numbers, wanted 1,10,100 or begin:end or begin:end:step", option, text));
}

std::optional<std::int64_t> number_of(const std::string& text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

/// begin, begin + step, ... below end.
Status append_range(const std::string& option, const std::vector<std::string>& ends, Numbers& numbers) {
  const auto end_number = number_of(ends[1]);
  if (!end_number) return refuse(option, ends[1]);
  const auto step_number = ends.size() == 3 ? number_of(ends[2]) : 1;
  if (!step_number || *step_number < 1) return refuse(option, ends[2]);
  const auto begin = number_of(ends[0]);
  if (!begin) return refuse(option, ends[0]);
  const std::int64_t end = *end_number;
  const std::int64_t step = *step_number;
  for (std::int64_t number = *begin; number < end; number += step) {
    numbers.push_back(number);
    if (numbers.size() > kMostNumbers) break;
    if (end - 1 - number < step && number >= 0) break;  // the next would be past the end, and might not fit in 64 bits
  }
  return {};
}

Result<std::vector<double>> evenly(const Spread& spread) {
  std::vector<double> values;
  const double step = static_cast<double>(spread.last - spread.first) / static_cast<double>(spread.points - 1);
  for (std::int64_t i = 1; i < spread.points; ++i) values.push_back(static_cast<double>(spread.first) + step * static_cast<double>(i));
  return values;
}

/// A ladder of frequencies is such a list: the library makes it, with the same numbers on every machine.
Result<std::vector<double>> in_equal_ratios(const std::string& option, const Spread& spread) {
  if (spread.points > kMostRatios)
    return Status::invalid(fmt::format("{}: points is {}, wanted at most {}", option, spread.points, kMostRatios));
  const double low = spread.first == 0 ? 1 : static_cast<double>(spread.first);
  const LogSpacedLadder ladder{.fastest = static_cast<double>(spread.last), .slowest = low};
  const auto made = Sinusoidal::make({.width = 2 * spread.points, .ladder = ladder});
  if (!made.ok()) return Status::invalid(fmt::format("{}: {}", option, made.status().message()));
  return std::vector<double>(made->frequencies().rbegin(), made->frequencies().rend());
}

}  // namespace

Result<Numbers> read_numbers(const std::string& option, const std::string& text) {
  Numbers numbers;
  for (const std::string& part : split(text, ',')) {
    const std::vector<std::string> ends = split(part, ':');
    if (ends.size() > 3) return refuse(option, part);
    if (ends.size() == 1) {
      const auto number = number_of(part);
      if (!number) return refuse(option, part);
      numbers.push_back(*number);
    } else if (Status status = append_range(option, ends, numbers); !status.ok()) {
      return status;
    }
    if (numbers.size() > kMostNumbers) return Status::invalid(fmt::format("{}: wanted at most {} numbers", option, kMostNumbers));
  }
  return numbers;
}

Result<Numbers> spread_numbers(const std::string& option, const Spread& spread) {
  if (spread.first < 0 || spread.last < spread.first) {
    return Status::invalid(fmt::format("{}: first is {} and last is {}, wanted 0 or above, and rising", option, spread.first, spread.last));
  }
  if (spread.points < 2) return Status::invalid(fmt::format("{}: points is {}, wanted 2 or more", option, spread.points));
  if (spread.last == spread.first) return Numbers{spread.first};
  const auto between = spread.log ? in_equal_ratios(option, spread) : evenly(spread);
  if (!between.ok()) return between.status();
  Numbers numbers{spread.first};
  for (const double value : *between) {
    const auto number = static_cast<std::int64_t>(std::llround(value));
    if (number > numbers.back() && number < spread.last) numbers.push_back(number);
  }
  if (numbers.back() != spread.last) numbers.push_back(spread.last);
  return numbers;
}

}  // namespace phasor::figures
