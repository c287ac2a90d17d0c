// SPDX-License-Identifier: Apache-2.0
// Formulas of learned tables: Su's hierarchical decomposition, and the weights of linear and cubic interpolation.
#pragma once

#include <cmath>
#include <cstdint>

namespace phasor::math {

/// alpha u_i + (1 - alpha) u_j with u_k = (p_k - alpha p_0) / (1 - alpha).
inline double hierarchical(double p_i, double p_j, double p_0, double alpha) {
  return alpha * (p_i - alpha * p_0) / (1 - alpha) + (p_j - alpha * p_0);
}

/// What a resized axis reads for one of its places: four neighbours (two of them when linear) and their weights.
struct Neighbours {
  std::int64_t index[4];
  double weight[4];
};

/// One axis of `from` places that becomes one of `to`.
struct ResizedAxis {
  std::int64_t from;
  std::int64_t to;
  bool align_corners;

  /// Where place i of the new axis lies on the old one.
  double source_of(std::int64_t i) const {
    if (align_corners) return to == 1 ? 0 : static_cast<double>(i) * (static_cast<double>(from - 1) / static_cast<double>(to - 1));
    return (static_cast<double>(i) + 0.5) * (static_cast<double>(from) / static_cast<double>(to)) - 0.5;
  }
  std::int64_t clamped(std::int64_t i) const { return i < 0 ? 0 : i >= from ? from - 1 : i; }
};

inline Neighbours linear_neighbours(const ResizedAxis& axis, std::int64_t i) {
  const double source = std::fmax(axis.source_of(i), 0);
  const auto low = static_cast<std::int64_t>(source);
  const double t = source - static_cast<double>(low);
  return {{axis.clamped(low), axis.clamped(low + 1), 0, 0}, {1 - t, t, 0, 0}};
}

/// Keys' cubic convolution with a = -3/4, at a distance from a place: within 1 of it, and from 1 to 2.
inline double cubic_near(double x) { return ((-0.75 + 2) * x - (-0.75 + 3)) * x * x + 1; }
inline double cubic_far(double x) { return ((-0.75 * x + 5 * 0.75) * x - 8 * 0.75) * x + 4 * 0.75; }

inline Neighbours cubic_neighbours(const ResizedAxis& axis, std::int64_t i) {
  const double source = axis.source_of(i);
  const auto low = static_cast<std::int64_t>(std::floor(source));
  const double t = source - static_cast<double>(low);
  return {{axis.clamped(low - 1), axis.clamped(low), axis.clamped(low + 1), axis.clamped(low + 2)},
          {cubic_far(t + 1), cubic_near(t), cubic_near(1 - t), cubic_far(2 - t)}};
}

}  // namespace phasor::math
