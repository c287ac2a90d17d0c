// SPDX-License-Identifier: Apache-2.0
#include "pairs.hpp"

#include <algorithm>
#include <cmath>

namespace phasor_ggml {
namespace {

/// Chunks in order; what is beyond the third is turned by the fourth position.
std::uint8_t chunked_axis(const Rope& rope, std::int64_t sector) {
  std::int64_t end = 0;
  for (std::uint8_t axis = 0; axis < 3; ++axis) {
    end += rope.sections[axis];
    if (sector < end) return axis;
  }
  return 3;
}

/// Three axes in turn while each has pairs left; the leftovers are turned by the fourth position.
std::uint8_t interleaved_axis(const Rope& rope, std::int64_t sector) {
  const auto axis = static_cast<std::uint8_t>(sector % 3);
  return sector < 3 * static_cast<std::int64_t>(rope.sections[axis]) ? axis : 3;
}

/// A vision rope begins its ladder again where an axis' section begins; of sections that begin together (empty ones) the first.
void restart_ladder(const Rope& rope, std::int64_t sector, std::array<std::int64_t, 4>& rungs) {
  std::int64_t begin = 0;
  for (std::size_t axis = 0; axis < rungs.size(); begin += rope.sections[axis++]) {
    if (sector != begin) continue;
    rungs[axis] = 0;
    return;
  }
}

/// 1 where a pair keeps its frequency, 0 where it is interpolated. The ends of the ramp are whole pairs.
double ramp(const Rope& rope, std::int64_t pair) {
  const auto end = [&](double turns) {
    const double length = rope.original_length;
    return rope.width * std::log(length / (turns * 2 * 3.14159265358979323846)) / (2 * std::log(static_cast<double>(rope.base)));
  };
  const double low = std::max(0.0, std::floor(end(rope.beta_fast)));
  const double high = std::min(rope.width - 1.0, std::ceil(end(rope.beta_slow)));
  return 1 - std::clamp((static_cast<double>(pair) - low) / std::max(0.001, high - low), 0.0, 1.0);
}

}  // namespace

std::vector<Pair> pairs_of(const Rope& rope) {
  std::vector<Pair> pairs(static_cast<std::size_t>(rope.pairs()));
  std::int64_t sum = 0;
  for (const std::int32_t section : rope.sections) sum += section;
  std::array<std::int64_t, 4> rungs = {};
  std::int64_t index = 0;
  for (Pair& pair : pairs) {
    const std::int64_t sector = rope.has_axes() ? index % sum : 0;
    if (rope.is_vision()) restart_ladder(rope, sector, rungs);
    if (rope.has_axes()) pair.axis = rope.mode == GGML_ROPE_TYPE_IMROPE ? interleaved_axis(rope, sector) : chunked_axis(rope, sector);
    pair.rung = rungs[pair.axis];
    for (std::int64_t& rung : rungs) ++rung;
    ++index;
  }
  return pairs;
}

std::vector<double> multipliers_of(const Rope& rope, const float* factors) {
  std::vector<double> multipliers(static_cast<std::size_t>(rope.pairs()), rope.scale);
  for (std::size_t i = 0; i < multipliers.size(); ++i) {
    if (rope.extension != 0) {
      const double kept = ramp(rope, static_cast<std::int64_t>(i)) * rope.extension;
      multipliers[i] = rope.scale * (1 - kept) + kept;
    }
    if (factors != nullptr) multipliers[i] /= factors[i];
  }
  return multipliers;
}

double amplitude_of(const Rope& rope) {
  const double attention = rope.attention;
  return rope.extension == 0 ? attention : attention * (1 + 0.1 * std::log(1 / static_cast<double>(rope.scale)));
}

}  // namespace phasor_ggml
