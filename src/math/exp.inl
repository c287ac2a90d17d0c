// SPDX-License-Identifier: Apache-2.0
// exp and tanh for attention, where speed goes before the last bit: in the words of cpu/common/vec.inl, one text for registers and one
// lane. No guard and no namespace: included by cpu/common/vec.inl.

// e^x = 2^n e^r with |r| <= ln(2) / 2, and e^r a minimax fit of degree 5 or 11 with 1 + r + ... given. From that, kCut is subtracted,
// which x is cut to the logarithm of: what matters not beside 1 becomes 0, and nothing that is multiplied by it later is subnormal (an
// assist of the processor each: attention that decays took 1.7 times as long).
template <class T>
struct ExpConstants;
template <>
struct ExpConstants<float> {
  static constexpr float kCut = 0x1p-64F;
  static constexpr float kLowest = -64 * 0x1.62e430p-1F;  // r is 0 there, or negative where n ln(2) takes two steps
  static constexpr float kRound = 0x1.8p23F + 127;        // added, the sum's last bits are the exponent of 2^n
  static constexpr float kLog2e = 0x1.715476p0F;
  static constexpr bool kInOneStep = kFused;
  static constexpr float kLn2 = 0x1.62e430p-1F;  // fused, its error of 2^-29 counts n times
  static constexpr float kLn2High = 0x1.63p-1F;  // 9 bits: its product with n is exact
  static constexpr float kLn2Low = -0x1.bd0106p-13F;
  static constexpr float kTerms[] = {0.0083125226772792602F, 0.041890156890766104F, 0.16667114620604472F, 0.49999231495553506F, 1.0F, 1.0F};
};
template <>
struct ExpConstants<double> {
  static constexpr double kCut = 0x1p-512;
  static constexpr double kLowest = -512 * 0x1.62e42fefa39f0p-1;
  static constexpr double kRound = 0x1.8p52 + 1023;
  static constexpr double kLog2e = 0x1.71547652b82fep0;
  static constexpr bool kInOneStep = false;
  static constexpr double kLn2 = 0x1.62e42fefa39efp-1;
  static constexpr double kLn2High = 0x1.62e42fep-1;  // 28 bits
  static constexpr double kLn2Low = 0x1.f473de6af278fp-30;
  static constexpr double kTerms[] = {2.5000066626477465254e-8,
                                      2.7630248368472882038e-7,
                                      2.7557586353522278202e-6,
                                      0.000024801493099025649647,
                                      0.00019841269506607021004,
                                      0.0013888888943629926239,
                                      0.0083333333334944459065,
                                      0.041666666666530159353,
                                      0.16666666666666412551,
                                      0.50000000000000106271,
                                      1.0,
                                      1.0};
};

/// A polynomial, highest coefficient first.
template <class T, std::size_t kCount>
HWY_INLINE Reg<T> polynomial(Reg<T> x, const T (&terms)[kCount]) {
  Reg<T> sum = set(terms[0]);
  HWY_UNROLL(16)
  for (std::size_t i = 1; i < kCount; ++i) sum = mul_add(sum, x, set(terms[i]));
  return sum;
}

/// The same, each as often as a register has lanes (spread_constant).
template <class T>
struct SpreadExpConstants {
  using C = ExpConstants<T>;
  static constexpr int kCount = std::size(C::kTerms);
  T lowest[lanes<T>] = {};
  T round[lanes<T>] = {};
  T log2e[lanes<T>] = {};
  T ln2_high[lanes<T>] = {};
  T ln2_low[lanes<T>] = {};
  T terms[kCount][lanes<T>] = {};
  T cut[lanes<T>] = {};
  constexpr SpreadExpConstants() {
    for (int lane = 0; lane < lanes<T>; ++lane) {
      lowest[lane] = C::kLowest;
      round[lane] = C::kRound;
      log2e[lane] = C::kLog2e;
      ln2_high[lane] = C::kInOneStep ? C::kLn2 : C::kLn2High;
      ln2_low[lane] = C::kLn2Low;
      for (int i = 0; i < kCount; ++i) terms[i][lane] = C::kTerms[i];
      cut[lane] = -C::kCut;
    }
  }
};
template <class T>
alignas(64) constexpr SpreadExpConstants<T> kSpreadExp;

/// x <- e^x for x <= 40 (float64: 700), but for an absolute error of 2^-64 (2^-512); relative error below 2^-21, for |x| <= 20
/// below 2^-22 (2^-50). Exactly 0 where that is
/// all, down to -infinity; exactly 1 at 0. NaN stays NaN. Several registers at once go step by step, so that none waits for itself.
template <class T, int kCount>
HWY_INLINE void exponentials(Reg<T> (&x)[kCount]) {
  using C = ExpConstants<T>;
  constexpr const SpreadExpConstants<T>& kSpread = kSpreadExp<T>;
  Reg<T> exponent[kCount];
  Reg<T> y[kCount];
  const Reg<T> lowest = spread_constant<T>(kSpread.lowest);
  const Reg<T> log2e = spread_constant<T>(kSpread.log2e);
  HWY_UNROLL(8)
  for (int i = 0; i < kCount; ++i) {
    x[i] = max(lowest, x[i]);
    exponent[i] = mul_add(x[i], log2e, spread_constant<T>(kSpread.round));
    make_now(exponent[i]);
  }
  const Reg<T> round = spread_constant<T>(kSpread.round);
  const Reg<T> ln2_high = spread_constant<T>(kSpread.ln2_high);
  const Reg<T> ln2_low = spread_constant<T>(kSpread.ln2_low);
  HWY_UNROLL(8)
  for (int i = 0; i < kCount; ++i) {
    const Reg<T> n = sub(exponent[i], round);
    x[i] = neg_mul_add(n, ln2_high, x[i]);
    if constexpr (!C::kInOneStep) x[i] = neg_mul_add(n, ln2_low, x[i]);
    make_now(x[i]);
  }
  const Reg<T> first = spread_constant<T>(kSpread.terms[0]);
  HWY_UNROLL(8)
  for (int i = 0; i < kCount; ++i) y[i] = mul_add(first, x[i], spread_constant<T>(kSpread.terms[1]));
  HWY_UNROLL(16)
  for (int term = 2; term < SpreadExpConstants<T>::kCount; ++term) {
    HWY_UNROLL(8)
    for (int i = 0; i < kCount; ++i) {
      y[i] = mul_add(y[i], x[i], spread_constant<T>(kSpread.terms[term]));
      make_now(y[i]);
    }
  }
  HWY_UNROLL(8)
  for (int i = 0; i < kCount; ++i) {
    x[i] = mul_add(y[i], power_of_last_bits(exponent[i]), spread_constant<T>(kSpread.cut));
    if constexpr (!C::kInOneStep) x[i] = max(zero<T>(), x[i]);
    make_now(x[i]);
  }
}
template <class T>
HWY_INLINE Reg<T> exponential(Reg<T> x) {
  Reg<T> one[1] = {x};
  exponentials<T>(one);
  return one[0];
}

/// tanh(x) = x + x z q(z), z = x^2, for |x| < 5/8; beyond, by e^(-2|x|).
template <class T>
struct TanhConstants;
template <>
struct TanhConstants<float> {
  static constexpr float kTerms[] = {-0.0057049777497889052F, 0.020639077823307234F, -0.053739711702879213F, 0.1333144214862172F,
                                     -0.33333281939614308F};
};
template <>
struct TanhConstants<double> {
  static constexpr double kTerms[] = {
      0.000042754405019073674334, -0.00019682068411606069, 0.0005697810382227063939, -0.0014496208906324626222, 0.0035908854353679254424,
      -0.0088630751093688984,     0.021869475647726742783, -0.053968253370799213306, 0.13333333331957787871,    -0.333333333333223403};
};

template <class T>
HWY_INLINE Reg<T> hyperbolic_tangent(Reg<T> x) {
  using V = Reg<T>;
  const V size = absolute(x);
  const V z = mul(x, x);
  const V near = mul_add(mul(x, z), polynomial(z, TanhConstants<T>::kTerms), x);
  const V e = exponential<T>(mul(set(T{-2}), size));
  const V far = div(sub(set(T{1}), e), add(set(T{1}), e));
  return if_then_else(less(size, set(T{0.625})), near, if_then_else(less(x, zero<T>()), neg(far), far));
}
