// SPDX-License-Identifier: Apache-2.0
// What follows from a rotary spec, in numbers: slowed pairs, wavelengths, table sizes.
#include "analysis/model/rope.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "phasor/analysis.hpp"
#include "spec/axes.hpp"
#include "spec/rotary.hpp"

namespace phasor::analysis {
namespace {

/// Above this many runs a list of ranges says less than one range.
constexpr std::size_t kMostRuns = 6;
/// Factors that differ by less were meant to be equal: a few roundings of double.
constexpr double kAlike = 1e-12;

std::int64_t width_of(const RotarySpec& spec) { return spec.rotary_width == 0 ? spec.head_dim : spec.rotary_width; }

bool has_own_frequencies(const RotarySpec& spec) {
  return std::holds_alternative<GivenFrequencies>(spec.scaling) || std::holds_alternative<GivenDirections>(spec.scaling);
}

/// Unscaled frequency / frequency. All 1 where there is nothing to compare with.
Result<std::vector<double>> slowing(const Rotary& rotary) {
  const std::vector<double>& frequencies = rotary.frequencies();
  std::vector<double> ratios(frequencies.size(), 1.0);
  if (has_own_frequencies(rotary.spec())) return ratios;
  RotarySpec plain = rotary.spec();
  plain.scaling = Unscaled{};
  const auto unscaled = Rotary::make(plain);
  if (!unscaled.ok()) return unscaled.status();
  for (std::size_t i = 0; i < ratios.size(); ++i) {
    ratios[i] = frequencies[i] == 0 ? std::numeric_limits<double>::infinity() : unscaled->frequencies()[i] / frequencies[i];
    if (std::abs(ratios[i] - 1) <= kAlike) ratios[i] = 1;
  }
  return ratios;
}

bool alike(double a, double b) { return a == b || std::abs(a - b) <= kAlike * std::abs(a); }

void extend(PairRun& run, const PairRun& by) {
  run.last = by.last;
  run.slowed_from = std::min(run.slowed_from, by.slowed_from);
  run.slowed_to = std::max(run.slowed_to, by.slowed_to);
  run.fastest_wavelength = std::min(run.fastest_wavelength, by.fastest_wavelength);
  run.slowest_wavelength = std::max(run.slowest_wavelength, by.slowest_wavelength);
}

/// Joins neighbours that `together` says belong together.
template <class Together>
std::vector<PairRun> merged(const std::vector<PairRun>& runs, const Together& together) {
  std::vector<PairRun> result;
  for (const PairRun& run : runs) {
    if (!result.empty() && together(result.back(), run)) {
      extend(result.back(), run);
    } else {
      result.push_back(run);
    }
  }
  return result;
}

/// A pair on its own slope: neither untouched nor still nor like its neighbour.
bool on_a_ramp(const PairRun& run) {
  const bool alone = run.first == run.last || !alike(run.slowed_from, run.slowed_to);
  return alone && run.slowed_from != 1 && std::isfinite(run.slowed_from);
}

std::vector<PairRun> runs_of(const RopeFacts& facts, const std::vector<double>& ratios) {
  const std::vector<std::int64_t> axes = axes_of_pairs(facts.rotary.spec());
  std::vector<PairRun> runs;
  for (std::size_t i = 0; i < ratios.size(); ++i) {
    const auto pair = static_cast<std::int64_t>(i);
    runs.push_back({pair, pair, axes[i], ratios[i], ratios[i], facts.wavelengths[i], facts.wavelengths[i]});
  }
  const auto same_axis = [](const PairRun& a, const PairRun& b) { return a.axis == b.axis; };
  // Axes dealt out pair by pair would make a line of every pair: then the runs cut across them.
  const bool by_axis = merged(runs, same_axis).size() <= kMostRuns;
  const auto together = [&](const PairRun& a, const PairRun& b) { return !by_axis || same_axis(a, b); };
  auto result = merged(runs, [&](const PairRun& a, const PairRun& b) { return together(a, b) && alike(a.slowed_to, b.slowed_to); });
  result = merged(result, [&](const PairRun& a, const PairRun& b) { return together(a, b) && on_a_ramp(a) && on_a_ramp(b); });
  if (result.size() > kMostRuns) result = merged(runs, [&](const PairRun& a, const PairRun& b) { return together(a, b); });
  if (!by_axis) {
    for (PairRun& run : result) run.axis = -1;
  }
  return result;
}

std::int64_t slower_than(const std::vector<double>& wavelengths, std::int64_t length) {
  return std::count_if(wavelengths.begin(), wavelengths.end(), [&](double w) { return w > static_cast<double>(length); });
}

void add_wavelengths(RopeFacts& facts, const Lengths& lengths) {
  facts.wavelengths = wavelengths(facts.rotary);
  facts.fastest_wavelength = std::numeric_limits<double>::infinity();
  for (const double wavelength : facts.wavelengths) {
    if (std::isinf(wavelength)) {
      ++facts.still_pairs;
      continue;
    }
    facts.fastest_wavelength = std::min(facts.fastest_wavelength, wavelength);
    facts.slowest_wavelength = std::max(facts.slowest_wavelength, wavelength);
  }
  facts.slower_than_trained = slower_than(facts.wavelengths, lengths.trained);
  facts.slower_than_allowed = slower_than(facts.wavelengths, lengths.allowed);
}

}  // namespace

std::int64_t axis_count(const RotarySpec& spec) { return spec::check(spec) ? spec::axis_count(spec) : 1; }

std::vector<std::int64_t> axes_of_pairs(const RotarySpec& spec) {
  if (!spec::check(spec)) return {};
  const std::vector<std::uint8_t> axes = spec::axis_of_pair(spec);
  return {axes.begin(), axes.end()};
}

Result<RopeFacts> rope_facts(const RotarySpec& spec, const Lengths& lengths) {
  auto rotary = Rotary::make(spec);
  if (!rotary.ok()) return rotary.status();
  RopeFacts facts{.rotary = *rotary};
  facts.width = width_of(spec);
  facts.pairs = facts.width / 2;
  facts.table_bytes_per_position = static_cast<double>(facts.width) * 2 * sizeof(float);
  if (std::holds_alternative<GivenDirections>(spec.scaling)) return facts;
  add_wavelengths(facts, lengths);
  const auto ratios = slowing(facts.rotary);
  if (!ratios.ok()) return ratios.status();
  facts.runs = runs_of(facts, *ratios);
  if (spec.unit == FrequencyUnit::radians) facts.float32 = float32_limit(facts.rotary.frequencies(), facts.rotary.amplitude());
  return facts;
}

}  // namespace phasor::analysis
