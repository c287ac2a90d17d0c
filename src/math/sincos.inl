// SPDX-License-Identifier: Apache-2.0
// Level 1 of exact cos and sin: polynomials in double from a 128-bit phase, and the test that proves their rounding to float32.
// No guard and no namespace: included once in phasor::math for one lane and CUDA, once in each Highway target's namespace.

// sin = u S(u^2), cos = 1 + u^2 C(u^2), u in quarter turns, |u| <= 1/2: minimax (Remez) polynomials.
//
// How far off level 1 can be, in ulps of the double result (an ulp is 2^-52 to 2^-53 of it):
//   phase     the step keeps 128 of its 192 bits: off by less than |m| 2^-128 turns. `tiny` sends |rest| < 4096 + |m| 2^-13 (units of
//             2^-64 turns) to all 192 bits, so the angle is off by less than 2^-51 of itself                                        4 ulps
//   u         two roundings (the conversion and the sum; the 12 dropped bits of `low` weigh 2^-64)                             2
//   formula   roundings of z, of Horner's last steps and of the last product or sum; fused or not                              4
//   S, C      Long: 2^-58.1 of sin and 2^-53.9 of cos (1 ulp); Short: 2^-47.7 and 2^-43.6 (671 ulps)                       1 / 671
// The angle's relative error reaches sin with a factor x cot(x) <= 1 and cos with x tan(x) <= pi/4.
// Sums: Long 11 < 32 = its doubt; Short 681 < 1024. tests/math/sincos_oracle_test.cpp measures both against MPFR.
// An amplitude multiplies once more: one rounding, and the same relative error may be twice as many ulps: doubt 2 d + 2.
//
// Coefficients from the highest power of u^2 down: one list each, by a function because CUDA knows no arrays of constants in a struct.
struct ShortSine {
  static constexpr int count = 6;
  PHASOR_HD static constexpr double at(int i) {
    constexpr double terms[] = {-0x1.dd4e53dad3d59p-19, 0x1.5071bed3ced43p-13, -0x1.32d2c6298a3d1p-8,
                                0x1.466bc670fd11ep-4,   -0x1.4abbce62577b9p-1, 0x1.921fb54442cf8p+0};
    return terms[i];
  }
};
struct ShortCosine {
  static constexpr int count = 5;
  PHASOR_HD static constexpr double at(int i) {
    constexpr double terms[] = {-0x1.a0f36aadf7361p-16, 0x1.e1e7f5865bcf8p-11, -0x1.55d3ba9dbd94dp-6, 0x1.03c1f075dd9f1p-2,
                                -0x1.3bd3cc9bd6839p+0};
    return terms[i];
  }
};
struct LongSine {
  static constexpr int count = 7;
  PHASOR_HD static constexpr double at(int i) {
    constexpr double terms[] = {0x1.e3eed5d693453p-25, -0x1.e30063a046395p-19, 0x1.50782fca38ddbp-13, -0x1.32d2cce2d5363p-8,
                                0x1.466bc67758700p-4,  -0x1.4abbce625be41p-1,  0x1.921fb54442d18p+0};
    return terms[i];
  }
};
struct LongCosine {
  static constexpr int count = 6;
  PHASOR_HD static constexpr double at(int i) {
    constexpr double terms[] = {0x1.f3dcefa931d4dp-22, -0x1.a6c9ca50d1367p-16, 0x1.e1f4fb84468a4p-11,
                                -0x1.55d3c7dc3de08p-6, 0x1.03c1f081b0e28p-2,   -0x1.3bd3cc9be459dp+0};
    return terms[i];
  }
};
struct Short {
  static constexpr u64 doubt = 1024;
  using Sine = ShortSine;
  using Cosine = ShortCosine;
};
struct Long {
  static constexpr u64 doubt = 32;
  using Sine = LongSine;
  using Cosine = LongCosine;
};

/// Horner's rule from term `i` on, `sum` being that of the terms before. `coefficient` is the target's way to a constant.
template <class Terms, int i, class D, class V>
PHASOR_INLINE V add_terms(D d, V z, V sum) {
  if constexpr (i == Terms::count) {
    return sum;
  } else {
    return add_terms<Terms, i + 1>(d, z, MulAdd(sum, z, coefficient<Terms, i>(d, z)));
  }
}
template <class Terms, class D, class V>
PHASOR_INLINE V polynomial(D d, V z) {
  return add_terms<Terms, 1>(d, z, coefficient<Terms, 0>(d, z));
}

/// Where the 29 bits that float32 drops lie within `doubt` ulps of one half: there the rounding is not proven.
template <class D, class V>
PHASOR_HD inline auto near_midpoint(D d, V y, u64 doubt) {
  const auto du = unsigned_tag(d);
  const auto di = signed_tag(d);
  const auto dropped = And(Add(BitCast(du, y), Set(du, doubt - (u64{1} << 28))), Set(du, (u64{1} << 29) - 1));
  return Lt(BitCast(di, dropped), Set(di, static_cast<i64>(2 * doubt)));
}

/// What level 1 makes of a phase: values in double, the quadrant applied, and where the distance from a multiple of a quarter turn is
/// too small for a relative error bound.
template <class V, class M>
struct SinCos {
  V cos;
  V sin;
  M tiny;
};

/// `tiny` in units of 2^-64 turns. The amplitude is not applied.
template <class Polynomials, class D, class VU>
PHASOR_INLINE auto sincos_lanes(D d, VU high, VU low, double tiny) {
  const auto du = unsigned_tag(d);
  const auto turned = Add(high, Set(du, u64{1} << 61));  // an eighth of a turn further, the quadrant is the two highest bits
  const auto rest = to_double(d, Sub(And(turned, Set(du, (u64{1} << 62) - 1)), Set(du, u64{1} << 61)));
  const auto below = Sub(BitCast(d, Or(ShiftRight<12>(low), Set(du, u64{0x3ff} << 52))), Set(d, 1.0));  // low 2^-64, in [0, 1)
  const auto u = Mul(Add(rest, below), Set(d, 0x1p-62));
  const auto z = Mul(u, u);
  const auto s = Mul(u, polynomial<typename Polynomials::Sine>(d, z));
  const auto c = MulAdd(z, polynomial<typename Polynomials::Cosine>(d, z), Set(d, 1.0));
  const auto odd = RebindMask(d, TestBit(turned, Set(du, u64{1} << 62)));
  const auto sign = Set(du, u64{1} << 63);
  const auto sign_cos = And(Add(turned, Set(du, u64{1} << 62)), sign);
  const auto sign_sin = And(turned, sign);
  const auto cos = BitCast(d, Xor(BitCast(du, IfThenElse(odd, s, c)), sign_cos));
  const auto sin = BitCast(d, Xor(BitCast(du, IfThenElse(odd, c, s)), sign_sin));
  const auto close = Lt(Abs(rest), Set(d, tiny));
  return SinCos<std::remove_const_t<decltype(cos)>, std::remove_const_t<decltype(close)>>{cos, sin, close};
}

// ---- Consecutive positions: rotation in double ----

/// Where a pair is, and how far it turns in one position.
template <class V>
struct Turning {
  V cos;
  V sin;
  V turn_cos;
  V turn_sin;
};

/// One position further: the sum of two angles. Fused or not.
template <class V>
PHASOR_HD inline void advance(Turning<V>& t) {
  const V cos = NegMulAdd(t.sin, t.turn_sin, Mul(t.cos, t.turn_cos));
  t.sin = MulAdd(t.cos, t.turn_sin, Mul(t.sin, t.turn_cos));
  t.cos = cos;
}

/// Rows that a seed serves.
constexpr int kRecurrenceRows = 32;

// Absolute error of (cos, sin) as a complex number, from a seed of level 1 (Long), in units of the amplitude A that the seed carries:
//   seed      11 ulps of at most 2^-53 in each part, and the product with A                                   17 * 2^-53 together
//   a row     two products and a sum in each part, each within 2^-54 of a number below 1 (2^-53 where A lifts it above 1), and the
//             turn's own roundings, sqrt(2) * 2^-54: 4.5 * 2^-53 in each part, 6.4 * 2^-53 together; 31 of them   199 * 2^-53
// Sum 216 * 2^-53 < 2^-45. Proven by Ziv's test: both ends of the interval round to the same float32. tests/cpu/rows_oracle_test.cpp
// measures 2^-48.1.
constexpr double kRecurrenceError = 0x1p-45;
