// SPDX-License-Identifier: Apache-2.0
// Phases that are sums: a pair that turns along a direction of several axes, by position times step of each.
#pragma once

#include "math/sincos.hpp"

namespace phasor::math {

PHASOR_HD inline Phase128 operator+(Phase128 a, Phase128 b) {
  const u64 low = a.low + b.low;
  return {a.high + b.high + (low < b.low ? 1 : 0), low};
}

/// Errors add.
PHASOR_HD inline Phase operator+(const Phase& a, const Phase& b) {
  Phase sum{};
  u128 carry = 0;
  for (int i = 0; i < 3; ++i) {
    carry += static_cast<u128>(a.limb[i]) + b.limb[i];
    sum.limb[i] = static_cast<u64>(carry);
    carry >>= 64;
  }
  sum.error = a.error + b.error;
  return sum;
}

/// One pair's step along each axis, `stride` apart.
struct Steps {
  const Step* first;
  i64 stride;
  int axes;

  PHASOR_HD const Step& along(int axis) const { return first[axis * stride]; }
};

/// A phase and the bound below which 128 bits of it are not enough: where bits are dropped of several terms, the bounds add like the bits.
struct BoundedPhase128 {
  Phase128 phase;
  double tiny;
};

template <class Position>
PHASOR_HD inline Phase phase_of(const Steps& steps, const Position* position) {
  Phase sum = phase_of(steps.along(0), position[0]);
  for (int a = 1; a < steps.axes; ++a) sum = sum + phase_of(steps.along(a), position[a]);
  return sum;
}

PHASOR_HD inline BoundedPhase128 phase128_of(const Steps& steps, const i64* position) {
  BoundedPhase128 sum = {phase128_of(steps.along(0), position[0]), tiny_bound(position[0])};
  for (int a = 1; a < steps.axes; ++a) {
    sum.phase = sum.phase + phase128_of(steps.along(a), position[a]);
    sum.tiny += tiny_bound(position[a]);
  }
  return sum;
}
PHASOR_HD inline BoundedPhase128 phase128_of(const Steps& steps, const double* position) {  // all 192 bits are added, then cut once
  const Phase sum = phase_of(steps, position);
  return {{sum.limb[2], sum.limb[1]}, steps.axes * tiny_bound_of_fraction()};
}

/// The float32 nearest to amplitude * cos and amplitude * sin of the sum. Every position must have a phase.
template <class Position>
PHASOR_HD inline void sincos(const Steps& steps, const Position* position, double amplitude, float& cos, float& sin) {
  const BoundedPhase128 bounded = phase128_of(steps, position);
  if (sincos_proven<Long>(bounded.phase, bounded.tiny, amplitude, cos, sin)) {
    sincos_in_doubt(phase_of(steps, position), amplitude, cos, sin);
  }
}
template <class Position>
PHASOR_HD inline void sincos(const Steps& steps, const Position* position, double amplitude, double& cos, double& sin) {
  sincos_double(phase_of(steps, position), amplitude, cos, sin);
}

}  // namespace phasor::math
