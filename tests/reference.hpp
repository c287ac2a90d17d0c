// SPDX-License-Identifier: Apache-2.0
// The reference: numbers, rows and the rotation written naively. Shares no code with src/.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>

#include "phasor/rotary.hpp"
#include "phasor/tensor_view.hpp"
#include "wide.hpp"

namespace phasor::reference {

// ---- float16 and bfloat16 ----

/// A small binary format: 1 sign bit, `exponent_bits`, `mantissa_bits`.
struct Format {
  int exponent_bits;
  int mantissa_bits;
};
inline constexpr Format f16_format = {5, 10};
inline constexpr Format bf16_format = {8, 7};

/// What a code of 16 bits means, by the definition of IEEE 754.
inline double value_of(Format format, std::uint16_t code) {
  const int largest = (1 << format.exponent_bits) - 1;
  const int bias = largest / 2;
  const int exponent = (code >> format.mantissa_bits) & largest;
  const int mantissa = code & ((1 << format.mantissa_bits) - 1);
  double magnitude = 0;
  if (exponent == largest) {
    magnitude = mantissa == 0 ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  } else if (exponent == 0) {
    magnitude = std::ldexp(mantissa, 1 - bias - format.mantissa_bits);
  } else {
    magnitude = std::ldexp((1 << format.mantissa_bits) + mantissa, exponent - bias - format.mantissa_bits);
  }
  return (code & 0x8000) != 0 ? -magnitude : magnitude;
}

/// Every magnitude of a format in rising order, the first one beyond the finite as if the exponents went on: overflow rounds like the rest.
inline std::vector<double> magnitudes(Format format) {
  std::vector<double> list;
  const std::uint16_t infinity = static_cast<std::uint16_t>(((1 << format.exponent_bits) - 1) << format.mantissa_bits);
  for (std::uint16_t code = 0; code < infinity; ++code) list.push_back(value_of(format, code));
  list.push_back(std::ldexp(1.0, 1 << (format.exponent_bits - 1)));
  return list;
}

/// The code nearest to x, ties to the even one, by looking at the two neighbours. A NaN gives some NaN.
inline std::uint16_t nearest_code(Format format, const std::vector<double>& list, double x) {
  const std::uint16_t sign = std::signbit(x) ? 0x8000 : 0;
  const std::uint16_t infinity = static_cast<std::uint16_t>(list.size() - 1);
  if (std::isnan(x)) return static_cast<std::uint16_t>(sign | infinity | (1 << (format.mantissa_bits - 1)));
  const double magnitude = std::fabs(x);
  if (magnitude >= list.back()) return sign | infinity;
  const auto above = std::upper_bound(list.begin(), list.end(), magnitude);
  const std::uint16_t high = static_cast<std::uint16_t>(above - list.begin());
  const std::uint16_t low = static_cast<std::uint16_t>(high - 1);
  const double to_low = magnitude - list[low];  // exact: x is a float32
  const double to_high = list[high] - magnitude;
  const bool take_low = to_low < to_high || (to_low == to_high && low % 2 == 0);
  return static_cast<std::uint16_t>(sign | (take_low ? low : high));
}

/// std::bit_cast, which Emscripten's library lacks.
template <class To, class From>
To same_bytes(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof to);
  return to;
}

// ---- Elements: how a dtype is widened to its arithmetic type and narrowed back ----

template <class T>
struct Element {  // float and double are their own arithmetic type
  using Value = T;
  using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  static T widen(T x) { return x; }
  static T narrow(T x) { return x; }
  static Bits bits(T x) { return same_bytes<Bits>(x); }
  static T from_bits(std::uint64_t bits) { return same_bytes<T>(static_cast<Bits>(bits)); }
};
template <class T, const Format& format>
struct SmallElement {
  using Value = float;
  using Bits = std::uint16_t;
  static float widen(T x) { return static_cast<float>(value_of(format, x.bits)); }
  static T narrow(float x) {
    static const std::vector<double> list = magnitudes(format);
    return {nearest_code(format, list, x)};
  }
  static Bits bits(T x) { return x.bits; }
  static T from_bits(std::uint64_t bits) { return {static_cast<Bits>(bits)}; }
};
template <>
struct Element<Float16> : SmallElement<Float16, f16_format> {};
template <>
struct Element<BFloat16> : SmallElement<BFloat16, bf16_format> {};

template <class T>
bool is_nan(T x) {
  return std::isnan(Element<T>::widen(x));
}

// ---- Rows ----

/// cos and sin of every (batch, token, pair), for each of a pair's two lanes. A batch of 1 is shared.
template <class V>
struct Rows {
  std::int64_t batch = 1;
  std::int64_t tokens = 0;
  std::int64_t pairs = 0;
  std::vector<V> cos[2];
  std::vector<V> sin[2];

  std::size_t index(std::int64_t b, std::int64_t t, std::int64_t pair) const {
    return static_cast<std::size_t>(((batch == 1 ? 0 : b) * tokens + t) * pairs + pair);
  }
};

/// base^(-2i/R).
inline long double frequency(double base, std::int64_t width, std::int64_t pair) {
  return test::wide_pow(static_cast<long double>(base), -2.0L * static_cast<long double>(pair) / static_cast<long double>(width));
}

/// Distance between a float32 and the truth, in ulps of the float32 (subnormal ulps below the normal range).
inline double ulps_apart(float is, long double truth) {
  const float magnitude = std::max(std::fabs(is), std::numeric_limits<float>::min());
  const long double ulp = static_cast<long double>(std::nextafter(magnitude, std::numeric_limits<float>::infinity())) - magnitude;
  return static_cast<double>(std::fabs(static_cast<long double>(is) - truth) / ulp);
}

// ---- The rotation ----

/// x cos - y sin, each step rounded: volatile keeps a compiler from fusing them.
template <class V>
V first_of(V x, V y, V cos, V sin) {
  const volatile V a = x * cos;
  const volatile V b = y * sin;
  return a - b;
}
/// y cos + x sin.
template <class V>
V second_of(V x, V y, V cos, V sin) {
  const volatile V a = y * cos;
  const volatile V b = x * sin;
  return a + b;
}

struct Geometry {
  std::int64_t width;
  std::int64_t offset;
  Pairing read;
  Pairing write;
};

inline std::int64_t channel(Pairing pairing, std::int64_t width, std::int64_t pair, int lane) {
  return pairing == Pairing::half ? pair + lane * (width / 2) : 2 * pair + lane;
}

/// One head, `in` and `out` of head_dim elements each, apart. A pair that does not turn (cos 1, sin 0) is moved bit for bit.
template <class T, class V>
void rotate_head(const std::vector<T>& in, std::vector<T>& out, const Geometry& g, const Rows<V>& rows, std::size_t row) {
  using E = Element<T>;
  out = in;
  for (std::int64_t i = 0; i < g.width / 2; ++i) {
    const std::size_t at = row + static_cast<std::size_t>(i);
    const V cos[2] = {rows.cos[0][at], rows.cos[1][at]};
    const V sin[2] = {rows.sin[0][at], rows.sin[1][at]};
    const T x = in[static_cast<std::size_t>(g.offset + channel(g.read, g.width, i, 0))];
    const T y = in[static_cast<std::size_t>(g.offset + channel(g.read, g.width, i, 1))];
    T& to_x = out[static_cast<std::size_t>(g.offset + channel(g.write, g.width, i, 0))];
    T& to_y = out[static_cast<std::size_t>(g.offset + channel(g.write, g.width, i, 1))];
    const bool turns = cos[0] != 1 || cos[1] != 1 || sin[0] != 0 || sin[1] != 0;
    to_x = turns ? E::narrow(first_of<V>(E::widen(x), E::widen(y), cos[0], sin[0])) : x;
    to_y = turns ? E::narrow(second_of<V>(E::widen(x), E::widen(y), cos[1], sin[1])) : y;
  }
}

}  // namespace phasor::reference
