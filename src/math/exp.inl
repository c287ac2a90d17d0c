// SPDX-License-Identifier: Apache-2.0
// exp and tanh for attention, where speed goes before the last bit: in the words of cpu/vec.inl, one text for registers and one lane. No
// guard and no namespace: included by cpu/vec.inl.

// e^x = 2^(n-1) 2 e^r with |r| <= ln(2) / 2, and 2 e^r a minimax fit of degree 5 or 11 with 2 + 2r + ... given. Where n is the least
// that x is cut to, the exponent of 2^(n-1) is that of 0, and so is the result: nothing is ever subnormal.
template <class T>
struct ExpConstants;
template <>
struct ExpConstants<float> {
  static constexpr float kLowest = -126 * 0x1.62e430p-1F;  // n = -126
  static constexpr float kRound = 0x1.8p23F + 126;         // added, the sum's last bits are the exponent of 2^(n-1)
  static constexpr float kLog2e = 0x1.715476p0F;
  static constexpr float kLn2 = 0x1.62e430p-1F;  // fused, its error of 2^-29 counts n times: 2^-22 at the very end
  static constexpr float kLn2High = 0x1.63p-1F;  // 9 bits: its product with n is exact
  static constexpr float kLn2Low = -0x1.bd0106p-13F;
  static constexpr float kTerms[] = {
      2 * 0.0083125226772792602F, 2 * 0.041890156890766104F, 2 * 0.16667114620604472F, 2 * 0.49999231495553506F, 2.0F, 2.0F};
};
template <>
struct ExpConstants<double> {
  static constexpr double kLowest = -1022 * 0x1.62e42fefa39efp-1;  // n = -1022
  static constexpr double kRound = 0x1.8p52 + 1022;
  static constexpr double kLog2e = 0x1.71547652b82fep0;
  static constexpr double kLn2High = 0x1.62e42fep-1;  // 28 bits
  static constexpr double kLn2Low = 0x1.f473de6af278fp-30;
  static constexpr double kTerms[] = {2 * 2.5000066626477465254e-8,
                                      2 * 2.7630248368472882038e-7,
                                      2 * 2.7557586353522278202e-6,
                                      2 * 0.000024801493099025649647,
                                      2 * 0.00019841269506607021004,
                                      2 * 0.0013888888943629926239,
                                      2 * 0.0083333333334944459065,
                                      2 * 0.041666666666530159353,
                                      2 * 0.16666666666666412551,
                                      2 * 0.50000000000000106271,
                                      2.0,
                                      2.0};
};

/// A polynomial, highest coefficient first.
template <class T, std::size_t kCount>
HWY_INLINE Reg<T> polynomial(Reg<T> x, const T (&terms)[kCount]) {
  Reg<T> sum = set(terms[0]);
  HWY_UNROLL(16)
  for (std::size_t i = 1; i < kCount; ++i) sum = mul_add(sum, x, set(terms[i]));
  return sum;
}

/// e^x for x <= 87 (float64: 708). Relative error below 2^-22 for x >= -20, else 2^-21 (float64: 2^-50). Exactly 0 from -87 (-708.1)
/// down to -infinity, exactly 1 at 0. NaN stays NaN.
template <class T>
HWY_INLINE Reg<T> exponential(Reg<T> x) {
  using C = ExpConstants<T>;
  x = max(set(C::kLowest), x);
  const Reg<T> exponent = mul_add(x, set(C::kLog2e), set(C::kRound));
  const Reg<T> n = sub(exponent, set(C::kRound));
  Reg<T> r;
  if constexpr (kFused && std::is_same_v<T, float>) {
    r = neg_mul_add(n, set(ExpConstants<float>::kLn2), x);
  } else {
    r = neg_mul_add(n, set(C::kLn2Low), neg_mul_add(n, set(C::kLn2High), x));
  }
  return mul(polynomial(r, C::kTerms), power_of_last_bits(exponent));
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
