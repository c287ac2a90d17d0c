// SPDX-License-Identifier: Apache-2.0
// Highway's vocabulary for one lane of plain C++: with it the `.inl` formulas compile for scalars and for CUDA as they do for registers.
#pragma once

#include "math/portable.hpp"

namespace phasor::math {

template <class T>
struct One {};

PHASOR_HD inline One<u64> unsigned_tag(One<double> /*d*/) { return {}; }
PHASOR_HD inline One<i64> signed_tag(One<double> /*d*/) { return {}; }
PHASOR_HD inline One<u32> unsigned_tag(One<float> /*d*/) { return {}; }

template <class T>
PHASOR_HD inline T Set(One<T> /*d*/, T value) {
  return value;
}
template <class T, class From>
PHASOR_HD inline T BitCast(One<T> /*d*/, From from) {
  return bit_cast<T>(from);
}
/// Coefficient `i` of a polynomial in `z`.
template <class Terms, int i>
PHASOR_HD inline double coefficient(One<double> /*d*/, double /*z*/) {
  return Terms::at(i);
}
PHASOR_HD inline double to_double(One<double> /*d*/, u64 signed_bits) { return static_cast<double>(static_cast<i64>(signed_bits)); }

template <class T>
PHASOR_HD inline T Add(T a, T b) {
  return a + b;
}
template <class T>
PHASOR_HD inline T Sub(T a, T b) {
  return a - b;
}
template <class T>
PHASOR_HD inline T Mul(T a, T b) {
  return a * b;
}
/// Fused or not, as the compiler likes: only for code whose rounding is proven.
template <class T>
PHASOR_HD inline T MulAdd(T a, T b, T c) {
  return a * b + c;
}
template <class T>
PHASOR_HD inline T NegMulAdd(T a, T b, T c) {
  return c - a * b;
}
PHASOR_HD inline double Abs(double a) { return a < 0 ? -a : a; }

template <class T>
PHASOR_HD inline T And(T a, T b) {
  return a & b;
}
template <class T>
PHASOR_HD inline T Or(T a, T b) {
  return a | b;
}
PHASOR_HD inline bool Or(bool a, bool b) { return a || b; }
template <class T>
PHASOR_HD inline T Xor(T a, T b) {
  return a ^ b;
}
template <int kBits, class T>
PHASOR_HD inline T ShiftLeft(T a) {
  return a << kBits;
}
template <int kBits, class T>
PHASOR_HD inline T ShiftRight(T a) {
  return a >> kBits;
}

template <class T>
PHASOR_HD inline bool Lt(T a, T b) {
  return a < b;
}
template <class T>
PHASOR_HD inline bool Gt(T a, T b) {
  return a > b;
}
template <class T>
PHASOR_HD inline bool TestBit(T a, T bit) {
  return (a & bit) != 0;
}
template <class T>
PHASOR_HD inline T IfThenElse(bool mask, T yes, T no) {
  return mask ? yes : no;
}
/// The mask of comparing integers, for choosing between floats of the same width.
template <class T>
PHASOR_HD inline bool RebindMask(One<T> /*d*/, bool mask) {
  return mask;
}

}  // namespace phasor::math
