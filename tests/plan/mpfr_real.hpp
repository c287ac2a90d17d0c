// SPDX-License-Identifier: Apache-2.0
// MpfrReal: MPFR at 512 bits with operators, so that oracles read like the formulas. Shares nothing with src/plan.
#pragma once

#include <mpfr.h>

#include <cstdint>

#include "math/phase/phase.hpp"

namespace phasor::oracle {

class MpfrReal {
 public:
  MpfrReal(double x = 0) {  // NOLINT(google-explicit-constructor)
    mpfr_init2(value_, 512);
    mpfr_set_d(value_, x, MPFR_RNDN);
  }
  MpfrReal(const MpfrReal& other) : MpfrReal() { mpfr_set(value_, other.value_, MPFR_RNDN); }
  MpfrReal& operator=(const MpfrReal& other) {
    mpfr_set(value_, other.value_, MPFR_RNDN);
    return *this;
  }
  ~MpfrReal() { mpfr_clear(value_); }
  static MpfrReal of_integer(std::int64_t n) {
    MpfrReal r;
    mpfr_set_sj(r.value_, n, MPFR_RNDN);
    return r;
  }
  static MpfrReal pi() {
    MpfrReal r;
    mpfr_const_pi(r.value_, MPFR_RNDN);
    return r;
  }

  mpfr_ptr get() { return value_; }
  mpfr_srcptr get() const { return value_; }
  double nearest_double() const { return mpfr_get_d(value_, MPFR_RNDN); }

 private:
  mpfr_t value_;
};

template <class F>
MpfrReal binary(F f, const MpfrReal& a, const MpfrReal& b) {
  MpfrReal r;
  f(r.get(), a.get(), b.get(), MPFR_RNDN);
  return r;
}
template <class F>
MpfrReal unary(F f, const MpfrReal& a) {
  MpfrReal r;
  f(r.get(), a.get(), MPFR_RNDN);
  return r;
}
inline MpfrReal operator+(const MpfrReal& a, const MpfrReal& b) { return binary(mpfr_add, a, b); }
inline MpfrReal operator-(const MpfrReal& a, const MpfrReal& b) { return binary(mpfr_sub, a, b); }
inline MpfrReal operator*(const MpfrReal& a, const MpfrReal& b) { return binary(mpfr_mul, a, b); }
inline MpfrReal operator/(const MpfrReal& a, const MpfrReal& b) { return binary(mpfr_div, a, b); }
inline bool operator<(const MpfrReal& a, const MpfrReal& b) { return mpfr_less_p(a.get(), b.get()) != 0; }
inline bool operator>(const MpfrReal& a, const MpfrReal& b) { return b < a; }
inline bool operator==(const MpfrReal& a, const MpfrReal& b) { return mpfr_equal_p(a.get(), b.get()) != 0; }
inline MpfrReal power(const MpfrReal& a, const MpfrReal& b) { return binary(mpfr_pow, a, b); }
inline MpfrReal log_of(const MpfrReal& a) { return unary(mpfr_log, a); }
inline MpfrReal exp_of(const MpfrReal& a) { return unary(mpfr_exp, a); }
inline MpfrReal sqrt_of(const MpfrReal& a) { return unary(mpfr_sqrt, a); }
inline MpfrReal cos_of(const MpfrReal& a) { return unary(mpfr_cos, a); }
inline MpfrReal sin_of(const MpfrReal& a) { return unary(mpfr_sin, a); }
inline MpfrReal floor_of(const MpfrReal& a) {
  MpfrReal r;
  mpfr_floor(r.get(), a.get());
  return r;
}
inline MpfrReal ceil_of(const MpfrReal& a) {
  MpfrReal r;
  mpfr_ceil(r.get(), a.get());
  return r;
}

/// The multiple of 2^-192 turns nearest to a frequency, by GMP: floor(N / 2^192) and the rest.
inline math::Step step_of(const MpfrReal& frequency) {
  MpfrReal turns = frequency / (MpfrReal(2) * MpfrReal::pi());
  mpfr_mul_2ui(turns.get(), turns.get(), 192, MPFR_RNDN);
  mpz_t n;
  mpz_init(n);
  mpfr_get_z(n, turns.get(), MPFR_RNDN);
  math::Step step{};
  for (math::u64& limb : step.fraction) {
    mpz_t low;
    mpz_init(low);
    mpz_fdiv_r_2exp(low, n, 64);
    limb = mpz_get_ui(low);
    mpz_fdiv_q_2exp(n, n, 64);
    mpz_clear(low);
  }
  step.whole = mpz_get_si(n);
  mpz_clear(n);
  return step;
}

/// The step's fraction of a turn, in radians.
inline MpfrReal radians_of(const math::Step& step) {
  MpfrReal r;
  for (int i = 2; i >= 0; --i) {
    MpfrReal limb;
    mpfr_set_uj(limb.get(), step.fraction[i], MPFR_RNDN);
    mpfr_div_2ui(limb.get(), limb.get(), static_cast<unsigned long>(64 * (3 - i)), MPFR_RNDN);
    r = r + limb;
  }
  return r * MpfrReal(2) * MpfrReal::pi();
}

}  // namespace phasor::oracle
