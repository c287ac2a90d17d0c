// SPDX-License-Identifier: Apache-2.0
// Uniqueness: the smallest distance between two positions' encodings, and how often each pair turns in a length.
#include <cmath>
#include <limits>
#include <numbers>
#include <string>

#include "analysis/exact_pairs.hpp"
#include "analysis/rows.hpp"
#include "job/check.hpp"
#include "phasor/analysis.hpp"
#include "spec/without_exceptions.hpp"

namespace phasor {
namespace {

constexpr std::int64_t kLongest = 1 << 24;
constexpr std::int64_t kMostRows = 1 << 13;

/// Half the angle, but for half turns, which a squared sine does not see.
void halve(math::Step& step) {
  for (int i = 0; i < 3; ++i) step.fraction[i] = step.fraction[i] >> 1U | (i < 2 ? step.fraction[i + 1] << 63U : 0);
}

/// |e(m) - e(n)|^2 = amplitude^2 sum (2 - 2 cos) = amplitude^2 sum 4 sin^2 of half the angle of the distance, which does not cancel.
Result<Gap> gap_by_distance(const Rotary& rotary, std::int64_t length) {
  Result<analysis::ExactPairs> pairs = analysis::exact_pairs("smallest_gap", rotary);
  if (!pairs.ok()) return pairs.status();
  for (math::Step& step : pairs->steps) halve(step);
  analysis::DistanceWalk walk(*pairs, {});
  walk.advance();
  double smallest = std::numeric_limits<double>::infinity();
  std::int64_t at = 0;
  for (std::int64_t distance = 1; distance < length; ++distance) {
    walk.advance();
    const double squares = walk.sine_squares();
    if (squares >= smallest) continue;
    smallest = squares;
    at = distance;
  }
  return Gap{2 * pairs->amplitude * std::sqrt(smallest), 0, at};
}

double squared_distance(const double* a, const double* b, std::int64_t width) {
  double sum = 0;
  for (std::int64_t i = 0; i < width; ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return sum;
}

Result<Gap> gap_of_rows(const ConstTensorView& tensor) {
  const auto rows = analysis::read_rows(tensor, {"smallest_gap", "rows", 2, kMostRows});
  if (!rows.ok()) return rows.status();
  Gap gap{std::numeric_limits<double>::infinity(), 0, 1};
  for (std::int64_t i = 0; i < rows->rows; ++i) {
    for (std::int64_t j = i + 1; j < rows->rows; ++j) {
      const double squared = squared_distance(rows->row(i), rows->row(j), rows->width);
      if (std::isnan(squared)) return job::error("smallest_gap", "rows {} and {} have no distance, wanted finite numbers", i, j);
      if (squared < gap.gap) gap = {squared, i, j};
    }
  }
  gap.gap = std::sqrt(gap.gap);
  return gap;
}

}  // namespace

Result<Gap> smallest_gap(const Rotary& rotary, std::int64_t length) {
  if (length < 2 || length > kLongest) return job::error("smallest_gap", "length is {}, wanted 2 to {}", length, kLongest);
  return spec::without_exceptions([&] { return gap_by_distance(rotary, length); });
}

Result<Gap> smallest_gap(const ConstTensorView& rows) {
  return spec::without_exceptions([&] { return gap_of_rows(rows); });
}

Result<std::vector<PairTurns>> pair_turns(const Rotary& rotary, std::int64_t length) {
  if (length < 1) return job::error("pair_turns", "length is {}, wanted at least 1", length);
  return spec::without_exceptions([&]() -> Result<std::vector<PairTurns>> {
    const std::vector<double> lengths = wavelengths(rotary);
    std::vector<PairTurns> list;
    list.reserve(lengths.size());
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      const double frequency = rotary.frequencies()[i];
      list.push_back({frequency, lengths[i], static_cast<double>(length) * std::abs(frequency) / (2 * std::numbers::pi)});
    }
    return list;
  });
}

}  // namespace phasor
