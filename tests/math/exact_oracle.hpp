// SPDX-License-Identifier: Apache-2.0
// The oracle of exact phases: MPFR at 320 bits, frequencies at 512 from (base, width, pair). Shares no code with src/plan or src/math.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "plan/mpfr_real.hpp"

namespace phasor::oracle {

/// base^(-2 i / width) for every pair: one power, then products; off by a few units of 2^-511.
inline std::vector<MpfrReal> ladder(double base, int width) {
  const MpfrReal ratio = power(MpfrReal(base), MpfrReal(-2) / MpfrReal(width));
  std::vector<MpfrReal> frequencies = {MpfrReal(1)};
  while (static_cast<int>(frequencies.size()) < width / 2) frequencies.push_back(frequencies.back() * ratio);
  return frequencies;
}

/// amplitude * cos and amplitude * sin of frequency * position at 320 bits.
class SinCosOracle {
 public:
  SinCosOracle() {
    mpfr_init2(angle_, 640);
    for (mpfr_ptr x : {static_cast<mpfr_ptr>(cos_), static_cast<mpfr_ptr>(sin_), static_cast<mpfr_ptr>(rest_)}) mpfr_init2(x, 320);
  }
  SinCosOracle(const SinCosOracle&) = delete;
  SinCosOracle& operator=(const SinCosOracle&) = delete;
  ~SinCosOracle() {
    for (mpfr_ptr x :
         {static_cast<mpfr_ptr>(angle_), static_cast<mpfr_ptr>(cos_), static_cast<mpfr_ptr>(sin_), static_cast<mpfr_ptr>(rest_)}) {
      mpfr_clear(x);
    }
  }

  void at(const MpfrReal& frequency, std::int64_t position, double amplitude = 1) {
    mpfr_mul_si(angle_, frequency.get(), position, MPFR_RNDN);
    compute(amplitude);
  }
  void at(const MpfrReal& frequency, double position, double amplitude = 1) {
    mpfr_mul_d(angle_, frequency.get(), position, MPFR_RNDN);
    compute(amplitude);
  }
  float cos_float() const { return mpfr_get_flt(cos_, MPFR_RNDN); }
  float sin_float() const { return mpfr_get_flt(sin_, MPFR_RNDN); }
  double cos_double() const { return mpfr_get_d(cos_, MPFR_RNDN); }
  double sin_double() const { return mpfr_get_d(sin_, MPFR_RNDN); }

  /// Distance of y from the cosine or the sine, in units of the last place of the double y.
  double cos_ulps(double y) { return ulps(cos_, y); }
  double sin_ulps(double y) { return ulps(sin_, y); }
  /// |high + low - truth|.
  double cos_error(double high, double low) { return error(cos_, high, low); }
  double sin_error(double high, double low) { return error(sin_, high, low); }

 private:
  void compute(double amplitude) {
    mpfr_sin_cos(sin_, cos_, angle_, MPFR_RNDN);
    mpfr_mul_d(cos_, cos_, amplitude, MPFR_RNDN);
    mpfr_mul_d(sin_, sin_, amplitude, MPFR_RNDN);
  }
  double error(mpfr_srcptr truth, double high, double low) {
    mpfr_sub_d(rest_, truth, high, MPFR_RNDN);
    mpfr_sub_d(rest_, rest_, low, MPFR_RNDN);
    return std::fabs(mpfr_get_d(rest_, MPFR_RNDN));
  }
  double ulps(mpfr_srcptr truth, double y) {
    int exponent = 0;
    std::frexp(y, &exponent);
    return std::ldexp(error(truth, y, 0), 53 - exponent);
  }

  mpfr_t angle_;
  mpfr_t cos_;
  mpfr_t sin_;
  mpfr_t rest_;
};

/// An amplitude near 1.2 that puts amplitude * sin within a double ulp of the midpoint of two float32: the hardest thing to round.
inline double amplitude_to_midpoint(const MpfrReal& frequency, std::int64_t position) {
  SinCosOracle truth;
  truth.at(frequency, position);
  const float low = static_cast<float>(1.2 * truth.sin_double());
  const double midpoint = 0.5 * static_cast<double>(low) + 0.5 * static_cast<double>(std::nextafter(low, 2.0F));
  return midpoint / truth.sin_double();
}

/// Positions as they occur and as they do not: small, medium, around 2^40, and the whole of int64.
inline std::int64_t draw_position(std::mt19937_64& random) {
  const std::uint64_t r = random();
  switch (r & 7) {
    case 0:
      return static_cast<std::int64_t>(r >> 8 & 0xffff);
    case 1:
      return static_cast<std::int64_t>(r >> 8 & 0xfffff);
    case 2:
      return static_cast<std::int64_t>(r >> 33);
    case 3:
      return -static_cast<std::int64_t>(r >> 8 & 0xffffffff);
    case 4:
      return static_cast<std::int64_t>(r >> 24) - (std::int64_t{1} << 39);
    case 5:
      return static_cast<std::int64_t>(r >> 10);
    default:
      return static_cast<std::int64_t>(random());
  }
}

/// Fractions of every size, |x| < 2^63: an exponent from -60 to 62, 53 random bits, either sign.
inline double draw_fraction(std::mt19937_64& random) {
  const double significand = static_cast<double>(random() >> 11) * 0x1p-53 + 1;
  const int exponent = static_cast<int>(random() % 123) - 60;
  return std::ldexp(random() % 2 != 0 ? significand : -significand, exponent);
}

struct LadderDraw {
  double base;
  int width;
};
/// Any base from 2 to 2^27, any even width from 2 to 512; every fourth is a published ladder.
inline LadderDraw draw_ladder(std::mt19937_64& random) {
  constexpr LadderDraw kPublished[] = {{1e4, 64}, {1e4, 128}, {5e5, 128}, {1e6, 128}, {1.6e5, 64}, {1e4, 80}, {5e5, 96}, {8e6, 256}};
  if (random() % 4 == 0) return kPublished[random() % 8];
  const double base = std::ldexp(1 + static_cast<double>(random() >> 11) * 0x1p-53, static_cast<int>(1 + random() % 26));
  return {base, static_cast<int>(2 * (1 + random() % 256))};
}

/// Positions at which frequency * position comes closest to a multiple of a quarter turn: the denominators of the convergents of
/// frequency / (pi / 2), up to 2^63. At frequency 1 they are the numerators of the convergents of pi / 2, those of pi among them.
inline std::vector<std::int64_t> nearest_to_quarter_turns(const MpfrReal& frequency) {
  std::vector<std::int64_t> positions;
  MpfrReal rest = MpfrReal(2) * frequency / MpfrReal::pi();
  MpfrReal before(1);
  MpfrReal now(0);  // denominators, begun one step early
  const MpfrReal end(0x1p63);
  for (;;) {
    const MpfrReal whole = floor_of(rest);
    const MpfrReal next = whole * now + before;
    if (!(next < end)) return positions;
    before = now;
    now = next;
    positions.push_back(mpfr_get_si(now.get(), MPFR_RNDN));
    rest = MpfrReal(1) / (rest - whole);
  }
}

}  // namespace phasor::oracle
