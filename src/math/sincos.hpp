// SPDX-License-Identifier: Apache-2.0
// Exact cos and sin of a phase: level 1 (sincos.inl), and level 2, double-double from all 192 bits, where level 1 cannot prove its
// rounding.
#pragma once

#include <cmath>
#include <type_traits>

#include "math/one_lane.hpp"
#include "math/phase/phase.hpp"

namespace phasor::math {

#include "math/half.inl"
#include "math/rotate.inl"
#include "math/sincos.inl"

/// A pair whose cosine is exactly 1 and sine exactly 0 is left bit for bit (-0, infinities and NaN too): position 0, and frequency 0.
template <class T>
PHASOR_HD inline bool is_identity(T cos, T sin) {
  return cos == T{1} && sin == T{0};
}

/// Below this distance from a multiple of a quarter turn, in units of 2^-64 turns, 128 bits of phase are not enough: see sincos.inl.
PHASOR_HD inline double tiny_bound(i64 position) { return 4096.0 + std::fabs(static_cast<double>(position)) * 0x1p-13; }
/// A float64 position's phase is cut to 128 bits after the product: one unit of 2^-128 turns, whatever the position.
PHASOR_HD inline double tiny_bound_of_fraction() { return 4096.0; }

PHASOR_HD inline u64 doubt_with_amplitude(u64 doubt, double amplitude) { return amplitude == 1 ? doubt : 2 * doubt + 2; }

// ---- Level 2: double-double (Dekker, Knuth), without fused operations where a machine may lack them ----

/// high + low, |low| <= ulp(high) / 2.
struct DoubleDouble {
  double high;
  double low;
};

PHASOR_HD inline DoubleDouble two_sum(double a, double b) {
  const double s = a + b;
  const double t = s - a;
  return {s, (a - (s - t)) + (b - t)};
}
PHASOR_HD inline DoubleDouble quick_two_sum(double a, double b) {  // |a| >= |b|
  const double s = a + b;
  return {s, b - (s - a)};
}
PHASOR_HD inline DoubleDouble split(double a) {
  const double t = 134217729.0 * a;  // 2^27 + 1
  const double high = t - (t - a);
  return {high, a - high};
}
PHASOR_HD inline DoubleDouble two_product(double a, double b) {
  const double p = a * b;
#ifdef __CUDA_ARCH__
  return {p, fma(a, b, -p)};  // both ways are exact
#else
  const DoubleDouble x = split(a);
  const DoubleDouble y = split(b);
  return {p, ((x.high * y.high - p) + x.high * y.low + x.low * y.high) + x.low * y.low};
#endif
}
PHASOR_HD inline DoubleDouble operator-(DoubleDouble a) { return {-a.high, -a.low}; }
PHASOR_HD inline DoubleDouble operator+(DoubleDouble a, DoubleDouble b) {
  DoubleDouble s = two_sum(a.high, b.high);
  const DoubleDouble t = two_sum(a.low, b.low);
  s = quick_two_sum(s.high, s.low + t.high);
  return quick_two_sum(s.high, s.low + t.low);
}
PHASOR_HD inline DoubleDouble operator*(DoubleDouble a, DoubleDouble b) {
  const DoubleDouble p = two_product(a.high, b.high);
  return quick_two_sum(p.high, p.low + (a.high * b.low + a.low * b.high));
}

namespace detail {

PHASOR_HD inline DoubleDouble from_limb(u64 limb, double unit) {
  return two_sum(static_cast<double>(limb >> 32) * (unit * 0x1p32), static_cast<double>(limb & 0xffffffffU) * unit);
}

/// Two's complement of 192 bits.
PHASOR_HD inline void negate(u64 limb[3]) {
  u64 carry = 1;
  for (int i = 0; i < 3; ++i) {
    limb[i] = ~limb[i] + carry;
    carry = carry != 0 && limb[i] == 0 ? 1 : 0;
  }
}

// Taylor, x in [-pi/4, pi/4]: sin to x^27 (the rest is below 2^-113 of it), cos to x^26 (2^-107). The terms from z^8 on are below 2^-53, so
// there a double is enough. Error of the whole, phase aside, below 2^-95: 2^-103 was seen.
constexpr int kDoubleDoubleTerms = 8;

PHASOR_HD inline DoubleDouble sine_series(DoubleDouble z) {  // sin(x) / x, z = -x^2
  constexpr double tail[] = {0x1.952c77030ad4ap-49, 0x1.2f49b46814157p-57, 0x1.71b8ef6dcf572p-66,
                             0x1.761b41316381ap-75, 0x1.3f3ccdd165fa9p-84, 0x1.d1ab1c2dccea3p-94};  // 1/17! ... 1/27!
  constexpr DoubleDouble head[] = {{0x1p+0, 0x0p+0},
                                   {0x1.5555555555555p-3, 0x1.5555555555555p-57},
                                   {0x1.1111111111111p-7, 0x1.1111111111111p-63},
                                   {0x1.a01a01a01a01ap-13, 0x1.a01a01a01a01ap-73},
                                   {0x1.71de3a556c734p-19, -0x1.c154f8ddc6cp-73},
                                   {0x1.ae64567f544e4p-26, -0x1.c062e06d1f209p-80},
                                   {0x1.6124613a86d09p-33, 0x1.f28e0cc748ebep-87},
                                   {0x1.ae7f3e733b81fp-41, 0x1.1d8656b0ee8cbp-97}};  // 1/1! ... 1/15!
  double t = tail[5];
  for (int k = 4; k >= 0; --k) t = t * z.high + tail[k];
  DoubleDouble p = {t, 0};
  for (int k = kDoubleDoubleTerms - 1; k >= 0; --k) p = p * z + head[k];
  return p;
}

PHASOR_HD inline DoubleDouble cosine_series(DoubleDouble z) {
  constexpr double tail[] = {0x1.ae7f3e733b81fp-45, 0x1.6827863b97d97p-53, 0x1.e542ba4020225p-62,
                             0x1.0ce396db7f853p-70, 0x1.f2cf01972f578p-80, 0x1.88e85fc6a4e5ap-89};  // 1/16! ... 1/26!
  constexpr DoubleDouble head[] = {{0x1p+0, 0x0p+0},
                                   {0x1p-1, 0x0p+0},
                                   {0x1.5555555555555p-5, 0x1.5555555555555p-59},
                                   {0x1.6c16c16c16c17p-10, -0x1.f49f49f49f49fp-65},
                                   {0x1.a01a01a01a01ap-16, 0x1.a01a01a01a01ap-76},
                                   {0x1.27e4fb7789f5cp-22, 0x1.cbbc05b4fa99ap-76},
                                   {0x1.1eed8eff8d898p-29, -0x1.2aec959e14c06p-83},
                                   {0x1.93974a8c07c9dp-37, 0x1.05d6f8a2efd1fp-92}};  // 1/0! ... 1/14!
  double t = tail[5];
  for (int k = 4; k >= 0; --k) t = t * z.high + tail[k];
  DoubleDouble p = {t, 0};
  for (int k = kDoubleDoubleTerms - 1; k >= 0; --k) p = p * z + head[k];
  return p;
}

}  // namespace detail

/// A phase as a quadrant and the angle from the nearest multiple of a quarter turn, in quarter turns, [-1/2, 1/2].
struct Reduced {
  u64 quadrant;
  DoubleDouble u;
};

PHASOR_HD inline Reduced reduce(const Phase& phase) {
  u64 limb[3] = {phase.limb[0], phase.limb[1], phase.limb[2]};
  const u64 quadrant = (limb[2] + (u64{1} << 61)) >> 62;
  limb[2] -= quadrant << 62;
  const bool negative = (limb[2] >> 63) != 0;
  if (negative) detail::negate(limb);  // so that the limbs add without cancelling
  const DoubleDouble u =
      detail::from_limb(limb[2], 0x1p-62) + (detail::from_limb(limb[1], 0x1p-126) + detail::from_limb(limb[0], 0x1p-190));
  return {quadrant, negative ? -u : u};
}

template <class V>
struct CosSin {
  V cos;
  V sin;
};

/// From the cosine and sine of the reduced angle to those of the angle.
template <class V>
PHASOR_HD inline CosSin<V> apply_quadrant(u64 quadrant, CosSin<V> r) {
  const bool odd = (quadrant & 1) != 0;
  const V cos = odd ? r.sin : r.cos;
  const V sin = odd ? r.cos : r.sin;
  return {((quadrant + 1) & 2) != 0 ? -cos : cos, (quadrant & 2) != 0 ? -sin : sin};
}

/// Relative error below 2^-95, and the phase's own.
PHASOR_HD inline CosSin<DoubleDouble> sincos_double_double(const Phase& phase) {
  const Reduced r = reduce(phase);
  const DoubleDouble x = r.u * DoubleDouble{0x1.921fb54442d18p+0, 0x1.1a62633145c07p-54};
  const DoubleDouble z = -(x * x);
  return apply_quadrant<DoubleDouble>(r.quadrant, {detail::cosine_series(z), x * detail::sine_series(z)});
}

/// A double-double rounded to float32: the nearest, the neighbour on the other side, and whether the truth may be nearer to that one.
struct Rounded {
  float nearest;
  float other;
  bool undecided;
};

/// `error` is absolute, and comes on top of 2^-95 of the value.
PHASOR_HD inline Rounded round_to_float(DoubleDouble y, double error) {
  const float nearest = static_cast<float>(y.high);
  if (y.high == 0 || !(std::fabs(nearest) < 0x1.fffffep127F)) return {nearest, nearest, false};
  const u32 bits = bit_cast<u32>(nearest);
  const bool above = std::fabs(static_cast<double>(nearest)) <= std::fabs(y.high);
  const float other = bit_cast<float>(above ? bits + 1 : bits - 1);
  const double middle = 0.5 * static_cast<double>(nearest) + 0.5 * static_cast<double>(other);  // exact, subnormals too
  const double beyond = (y.high - middle) + y.low;                                              // rounded, but its sign is right
  const bool undecided = std::fabs(beyond) < std::fabs(y.high) * 0x1p-95 + error;
  // Rounding y.high alone is right unless it sits on the midpoint: then `low` decides.
  const bool outwards = (y.low > 0) == (y.high > 0);
  const bool right = y.high != middle || y.low == 0 || outwards != above;
  return right ? Rounded{nearest, other, undecided} : Rounded{other, nearest, undecided};
}

/// Level 2: the float32 nearest to amplitude * cos and amplitude * sin. Returns whether even this could not decide (chance 2^-70).
PHASOR_HD inline bool sincos_float(const Phase& phase, double amplitude, float& cos, float& sin) {
  CosSin<DoubleDouble> r = sincos_double_double(phase);
  // |sin x| < |x|, by x^2 / 6 of it: of a small angle, that is less than level 2 sees. An angle that is a midpoint itself (frequency 1, a
  // float64 position) is the one way to come this close, so the value nearer to zero is right.
  const bool small = std::fabs(r.sin.high) < 0x1p-44;
  if (amplitude != 1) {
    r.cos = r.cos * DoubleDouble{amplitude, 0};
    r.sin = r.sin * DoubleDouble{amplitude, 0};
  }
  const Rounded c = round_to_float(r.cos, phase.error * amplitude);
  const Rounded s = round_to_float(r.sin, phase.error * amplitude);
  cos = c.nearest;
  sin = s.undecided && small && std::fabs(s.other) < std::fabs(s.nearest) ? s.other : s.nearest;
  return c.undecided || (s.undecided && !small);
}

/// The float64 nearest to amplitude * cos and amplitude * sin, but for a chance of 2^-40 a value, while the angle is above 2^-97.
PHASOR_HD inline void sincos_double(const Phase& phase, double amplitude, double& cos, double& sin) {
  const CosSin<DoubleDouble> r = sincos_double_double(phase);
  cos = amplitude == 1 ? r.cos.high : (r.cos * DoubleDouble{amplitude, 0}).high;
  sin = amplitude == 1 ? r.sin.high : (r.sin * DoubleDouble{amplitude, 0}).high;
}

/// Level 1 for one pair: returns whether a rounding is in doubt.
template <class Polynomials>
PHASOR_HD inline bool sincos_proven(Phase128 phase, double tiny, double amplitude, float& cos, float& sin) {
  const auto r = sincos_lanes<Polynomials>(One<double>(), phase.high, phase.low, tiny);
  const double c = r.cos * amplitude;
  const double s = r.sin * amplitude;
  cos = static_cast<float>(c);
  sin = static_cast<float>(s);
  const u64 doubt = doubt_with_amplitude(Polynomials::doubt, amplitude);
  return r.tiny || near_midpoint(One<double>(), c, doubt) || near_midpoint(One<double>(), s, doubt);
}

/// Level 1 from all 192 bits: for angles so small that 128 are not enough, yet no cause for level 2 (a ladder may have many pairs that
/// hardly turn). Bound as in sincos.inl with the phase's own error, here checked to be below 2^-51 of the angle. Returns whether a rounding
/// is in doubt.
PHASOR_HD inline bool sincos_proven_near_zero(const Phase& phase, double amplitude, float& cos, float& sin) {
  const One<double> d;
  const Reduced r = reduce(phase);
  const double u = r.u.high;
  const double z = u * u;
  const double s = u * polynomial<LongSine>(d, z) * amplitude;
  const double c = (1.0 + z * polynomial<LongCosine>(d, z)) * amplitude;
  const auto turned = apply_quadrant<float>(r.quadrant, {static_cast<float>(c), static_cast<float>(s)});
  cos = turned.cos;
  sin = turned.sin;
  const u64 doubt = doubt_with_amplitude(Long::doubt, amplitude);
  const bool phase_known = phase.error <= std::fabs(u) * 0x1p-51;
  const bool normal = std::fabs(s) >= 0x1p-125 || (u == 0 && phase.error == 0);  // a subnormal float32 drops more than 29 bits
  return !phase_known || !normal || near_midpoint(d, c, doubt) || (u != 0 && near_midpoint(d, s, doubt));
}

/// A pair whose level 1 from 128 bits was in doubt. Returns whether even level 2 could not decide.
PHASOR_HD inline bool sincos_in_doubt(const Phase& phase, double amplitude, float& cos, float& sin) {
  return sincos_proven_near_zero(phase, amplitude, cos, sin) && sincos_float(phase, amplitude, cos, sin);
}

/// The float32 nearest to amplitude * cos and amplitude * sin of step * position. What every kernel's result is defined by.
PHASOR_HD inline void sincos(const Step& step, i64 position, double amplitude, float& cos, float& sin) {
  if (sincos_proven<Long>(phase128_of(step, position), tiny_bound(position), amplitude, cos, sin)) {
    sincos_in_doubt(phase_of(step, position), amplitude, cos, sin);
  }
}
/// The same at a fractional position; NaN where there is no phase.
PHASOR_HD inline void sincos(const Step& step, double position, double amplitude, float& cos, float& sin) {
  if (!is_position(position)) {
    cos = sin = bit_cast<float>(u32{0x7fc00000});
    return;
  }
  const Phase phase = phase_of(step, position);
  if (sincos_proven<Long>({phase.limb[2], phase.limb[1]}, tiny_bound_of_fraction(), amplitude, cos, sin)) {
    sincos_in_doubt(phase, amplitude, cos, sin);
  }
}
/// The float64 ones.
template <class Position>
PHASOR_HD inline void sincos(const Step& step, Position position, double amplitude, double& cos, double& sin) {
  if constexpr (std::is_same_v<Position, double>) {
    if (!is_position(position)) {
      cos = sin = bit_cast<double>(u64{0x7ff8} << 48);
      return;
    }
  }
  sincos_double(phase_of(step, position), amplitude, cos, sin);
}

}  // namespace phasor::math
