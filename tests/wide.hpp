// SPDX-License-Identifier: Apache-2.0
// Elementary functions in all of long double, for references. WebAssembly's C library has those of double only: there they are summed here.
#pragma once

#include <cmath>

namespace phasor::test {

#ifdef __EMSCRIPTEN__

inline long double wide_exp(long double x) {
  constexpr long double ln2 = 0.693147180559945309417232121458176568L;
  const int k = static_cast<int>(std::lrint(static_cast<double>(x) / 0.6931471805599453));
  const long double r = x - static_cast<long double>(k) * ln2;
  long double term = 1;
  long double sum = 1;
  for (int n = 1; n < 40; ++n) sum += term *= r / n;
  return std::scalbn(sum, k);
}

/// Halley's steps on exp(y) = x from the double's logarithm: each triples the digits.
inline long double wide_log(long double x) {
  long double y = std::log(static_cast<double>(x));
  for (int i = 0; i < 2; ++i) {
    const long double e = wide_exp(y);
    y += 2 * (x - e) / (x + e);
  }
  return y;
}

inline long double wide_log1p(long double x) { return wide_log(1 + x); }
inline long double wide_pow(long double a, long double b) { return a == 0 ? 0 : wide_exp(b * wide_log(a)); }

#else

inline long double wide_exp(long double x) { return std::exp(x); }
inline long double wide_log(long double x) { return std::log(x); }
inline long double wide_log1p(long double x) { return std::log1p(x); }
inline long double wide_pow(long double a, long double b) { return std::pow(a, b); }

#endif

}  // namespace phasor::test
