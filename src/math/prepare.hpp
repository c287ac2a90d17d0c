// SPDX-License-Identifier: Apache-2.0
// Formulas of the step before attention: norms of heads by one written order of additions, numbers of 8 bits, and scales that are made.
#pragma once

#include <cmath>
#include <cstdint>

#include "math/sincos.hpp"

namespace phasor::math {

#include "math/float8.inl"

/// A sum of squares is kNormPartials sums, the j-th of the channels j, j + kNormPartials, ... in this order, and then a tree: the upper
/// half is added to the lower one until one is left. So it is the same for every width of registers and of blocks (one that divides this).
constexpr int kNormPartials = 32;

/// The last step of it: `width` partial sums to one.
template <class T>
PHASOR_HD inline T fold_partials(T* sums, int width = kNormPartials) {
  for (int half = width / 2; half > 0; half /= 2) {
    for (int j = 0; j < half; ++j) sums[j] += sums[j + half];
  }
  return sums[0];
}

/// What a head is multiplied by. sqrt and the divisions are correctly rounded everywhere.
PHASOR_HD inline float rms_factor(float sum, i64 count, float epsilon) {
  return 1.0F / std::sqrt(sum / static_cast<float>(count) + epsilon);
}
PHASOR_HD inline float l2_factor(float sum, float epsilon) { return 1.0F / std::sqrt(sum + epsilon); }

/// What the gradient of a norm loses along the normed values, from the sum of their products with the gradients by them.
PHASOR_HD inline float rms_along(float sum, i64 count) { return sum / static_cast<float>(count); }
/// Gradient by x of x * factor, whose factor is a norm's: `gradient` is by the normed value x * factor.
PHASOR_HD inline float norm_gradient(float gradient, float normed, float along, float factor) {
  return (gradient - normed * along) * factor;
}

/// The scale that makes `largest` the largest magnitude of a format, but not below `least`.
PHASOR_HD inline float made_scale(float largest, float format_largest, float least) {
  const float scale = largest / format_largest;
  return scale > least ? scale : least;
}

/// A positive scale as a power of two (ue8m0: exponent + 127, 255 is NaN), rounded up so that nothing leaves the range.
PHASOR_HD inline u32 ue8m0_of(float scale) {
  const u32 bits = bit_cast<u32>(scale);
  if (bits >= 0x7f800000) return 255;
  const u32 exponent = bits >> 23;
  // Subnormals: up to 2^-127 the first code, beyond it the next.
  if (exponent == 0) return (bits & 0x7fffff) > 0x400000 ? 1 : 0;
  const u32 up = (bits & 0x7fffff) != 0 ? 1 : 0;
  return exponent + up > 254 ? 254 : exponent + up;
}
PHASOR_HD inline float value_of_ue8m0(u32 code) {
  if (code == 255) return bit_cast<float>(u32{0x7fc00000});
  return bit_cast<float>(code == 0 ? u32{0x400000} : code << 23);
}

/// A value before it is stored: times a scale or divided by it.
PHASOR_HD inline float scaled(float value, float scale, bool multiplies) { return multiplies ? value * scale : value / scale; }

/// The same without a division, for what is stored in 8 bits: two corrections by the remainder, which a fused product gives exactly. The
/// second is of a number that is off by less than an ulp, and then it is correctly rounded (Markstein); only what 8 bits store as 0 or as
/// their largest may be another. `reciprocal` is 1 / scale.
PHASOR_HD inline float quotient(float x, float scale, float reciprocal) {
  const float first = x * reciprocal;
  const float second = fmaf(fmaf(-first, scale, x), reciprocal, first);
  const float third = fmaf(fmaf(-second, scale, x), reciprocal, second);
  // Where the first overflows the others are NaN, and where it is 0 its sign is lost.
  return fabsf(first) < 0x1p60F && fabsf(first) > 0x1p-60F ? third : first;
}
/// Whether a scale is so far from the ends of float32 that it is.
PHASOR_HD inline bool has_quotients(float scale) { return scale > 0x1p-40F && scale < 0x1p40F; }
/// The same for x of 16 bits with one correction, which leaves an error of less than 2^-46. What 8 bits round at has at most 8 digits, and
/// x 11: no scale gives a quotient that is as near to where rounding to float32 and to 8 bits would part, but for powers of two divided by
/// a scale whose digits are all ones. (All of them were tried: the next one is 2^-39 away.)
PHASOR_HD inline float short_quotient(float x, float scale, float reciprocal) {
  const float first = x * reciprocal;
  const float second = fmaf(fmaf(-first, scale, x), reciprocal, first);
  const float kept = fabsf(first) < 0x1p60F ? second : first;
  return bit_cast<float>((bit_cast<u32>(kept) & 0x7fffffffU) | (bit_cast<u32>(first) & 0x80000000U));  // that of 0 is lost
}
PHASOR_HD inline bool has_short_quotients(float scale) { return has_quotients(scale) && (bit_cast<u32>(scale) & 0x7fffffU) != 0x7fffffU; }

/// The same where a quotient is no infinity, as by a scale that was made of the largest magnitude: the remainder's sign is such that a zero
/// keeps its own.
PHASOR_HD inline float small_quotient(float x, float scale, float reciprocal) {
  const float first = x * reciprocal;
  return fmaf(-fmaf(first, scale, -x), reciprocal, first);
}
/// And of any scale that was made so and is normal or infinite: its power of two apart, which x is divided by exactly.
PHASOR_HD inline float any_small_quotient(float x, float scale) {
  const u32 exponent = bit_cast<u32>(scale) >> 23;
  const float digits = bit_cast<float>((bit_cast<u32>(scale) & 0x7fffffU) | 0x3f800000U);
  const float power = bit_cast<float>(exponent == 255 ? 0U : (254U - exponent) << 23);
  return quotient(x * power, digits, 1.0F / digits);
}

/// Whether x / scale and x * (1 / scale) are the same number of e4m3 for every x of so many binary digits. A product of the reciprocal is
/// off by less than 2^-22 of it, so they are, unless x / scale is as near to a middle of two numbers of e4m3, which are 16 to 31 sixteenths
/// times powers of two: those times the scale are so near to an x.
PHASOR_HD inline bool has_products(float scale, int digits) {
  if (!has_quotients(scale)) return false;
  if ((bit_cast<u32>(scale) & 0x7fffffU) == 0) return true;  // its reciprocal is exact
  constexpr u64 kOne = u64{1} << 52;
  const u64 step = kOne >> (digits - 1);  // from an x to the next one
  for (int middle = 16; middle < 32; ++middle) {
    const u64 part = (bit_cast<u64>(static_cast<double>(scale) * middle) & (kOne - 1)) | kOne;
    const u64 above = part & (step - 1);
    const u64 apart = above < step - above ? above : step - above;
    if (apart <= part >> 21) return false;
  }
  return true;
}

/// A NaN of the caller's without its payload: low bits of it would be in the way of rounding (round_bf16).
PHASOR_HD inline float plain_nan(float x) { return x == x ? x : bit_cast<float>(u32{0x7fc00000}); }

/// A weight of a norm as it is applied.
PHASOR_HD inline float applied_weight(float weight, bool one_plus) { return plain_nan(one_plus ? 1.0F + weight : weight); }

}  // namespace phasor::math
