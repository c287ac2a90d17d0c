// SPDX-License-Identifier: Apache-2.0
// Where float32 angles first fail: a search that leaves no position out.
#include <algorithm>
#include <cmath>

#include "analysis/float32_angles.hpp"
#include "analysis/model/rope.hpp"

namespace phasor::analysis {
namespace {

constexpr double kHalfUlp = 0x1p-24;             // most that rounding to float32 changes a number, relative
constexpr std::int64_t kExactFloat32 = 1 << 24;  // integers up to here are float32
constexpr std::int64_t kMostSteps = 1 << 26;     // of the search, all pairs together: a fraction of a second
constexpr double kFarthest = 0x1p52;             // positions beyond are not searched

/// The angle's error in radians. The double product's own rounding is taken back by the fused one, so that little is lost in the
/// difference.
double angle_off(std::int64_t position, double frequency) {
  const auto m = static_cast<double>(position);
  const double product = m * frequency;
  return (static_cast<double>(float32_angle(position, frequency)) - product) - std::fma(m, frequency, -product);
}

/// The larger error of the two, when the float32 angle is `angle` and too large by `off`.
double cos_sin_error(double angle, double off) {
  const double cos = std::cos(angle);
  const double sin = std::sin(angle);
  const double stays = 1 - std::cos(off);
  return std::max(std::abs(cos * stays - sin * std::sin(off)), std::abs(sin * stays + cos * std::sin(off)));
}

/// |off| <= position * frequency * (e + 2^-24 (1 + e)), e the relative error of the float32 frequency, and as much again for a position
/// beyond 2^24: no earlier position can reach `wanted`.
std::int64_t first_possible(double frequency, double wanted) {
  const double rounded = static_cast<float>(frequency);
  const double e = std::abs(rounded - frequency) / std::abs(frequency);
  const double slack = 1 + 0x1p-20;  // products of the small terms, and the roundings of this very line
  const double near = wanted / (std::abs(frequency) * (e + kHalfUlp) * slack);
  if (near < static_cast<double>(kExactFloat32)) return static_cast<std::int64_t>(near);
  const double far = wanted / (std::abs(frequency) * (e + 2 * kHalfUlp) * slack);
  return static_cast<std::int64_t>(std::clamp(far, static_cast<double>(kExactFloat32), kFarthest));
}

struct Start {
  std::int64_t position;  // first where the pair can err so much
  double frequency;
};

std::vector<Start> starts_of(const std::vector<double>& frequencies, double wanted) {
  std::vector<Start> starts;
  for (const double frequency : frequencies) {
    if (frequency != 0) starts.push_back({std::max<std::int64_t>(first_possible(frequency, wanted), 1), frequency});
  }
  std::sort(starts.begin(), starts.end(), [](const Start& a, const Start& b) { return a.position < b.position; });
  return starts;
}

/// A cosine moves by at most the angle's error, so only larger angle errors need the cosine itself.
bool errs(std::int64_t position, double frequency, double wanted) {
  const double off = angle_off(position, frequency);
  return std::abs(off) >= wanted && cos_sin_error(float32_angle(position, frequency), off) >= wanted;
}

}  // namespace

Float32Limit float32_limit(const std::vector<double>& frequencies, double amplitude) {
  const double wanted = kLost / amplitude;
  const auto farthest = static_cast<std::int64_t>(kFarthest);
  const std::vector<Start> starts = starts_of(frequencies, wanted);
  if (wanted > 2 || starts.empty()) return {.position = {}, .good_below = farthest};
  std::size_t active = 0;  // pairs that can err so much at m
  std::int64_t steps = 0;
  for (std::int64_t m = starts.front().position; m < farthest; ++m) {
    while (active < starts.size() && starts[active].position <= m) ++active;
    for (std::size_t i = 0; i < active; ++i) {
      if (errs(m, starts[i].frequency, wanted)) return {.position = m, .good_below = m};
    }
    steps += static_cast<std::int64_t>(active);
    if (steps > kMostSteps) return {.position = {}, .good_below = m + 1};
  }
  return {.position = {}, .good_below = farthest};
}

}  // namespace phasor::analysis
