// SPDX-License-Identifier: Apache-2.0
// Powers through the exponential of a logarithm: errors near 2^-270, so the one rounding to float32 or float64 is right.
#include "plan/profile/float32.hpp"

namespace phasor::plan {

Real power(const Real& x, const Real& y) { return exponential(natural_log(x) * y); }

std::vector<float> powers32(float base, const std::vector<float>& exponents) {
  const Real log_base = natural_log(Real(base));
  std::vector<float> powers;
  powers.reserve(exponents.size());
  for (const float y : exponents) powers.push_back(nearest_float(exponential(log_base * Real(y))));
  return powers;
}

}  // namespace phasor::plan
