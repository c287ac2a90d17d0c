// SPDX-License-Identifier: Apache-2.0
// The turn between two ladders from one position to the next. No guard and no namespace: included in each Highway target's namespace.

/// The angle of `to` less `sign` times that of `from`, as cosine and sine.
template <class V>
HWY_INLINE Pair<V> turn_between(Pair<V> to, Pair<V> from, V sign) {
  const V from_sin = Mul(sign, from.y);
  return {MulAdd(to.y, from_sin, Mul(to.x, from.x)), NegMulAdd(to.x, from_sin, Mul(to.y, from.x))};
}

// Absolute error of the recurrence over such turns, in units of the amplitude A that the seed carries:
//   seed      as in sincos.inl: the phases' own error, below 2^-61 radians, does not show                        17 * 2^-53
//   turn      each ladder's is the nearest float64, sqrt(2) * 2^-54 off, and the product rounds two products and a sum in each part, each
//             within 2^-54: (2 + 3) sqrt(2) * 2^-54 together                                                         3.6 * 2^-53
//   a row     two products and a sum in each part, 2^-53 each where A lifts them above 1: 3 sqrt(2) 2^-53 together; 4.3 * 2^-53
//             with the turn's error 7.9 * 2^-53; 31 of them                                                        245 * 2^-53
// Sum 262 * 2^-53 < 2^-44. Proven by Ziv's test, as there.
constexpr double kDifferenceError = 0x1p-44;
