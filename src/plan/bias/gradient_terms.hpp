// SPDX-License-Identifier: Apache-2.0
// What one distance adds to the gradient of a parameter, for every device.
#pragma once

#include "plan/bias/at_distance.hpp"

namespace phasor::plan {

/// Slopes rounded to bfloat16 get the gradient of slopes that are not.
PHASOR_HD inline double alibi_gradient(const BiasSource& bias, std::int64_t distance, double g) {
  return -(alibi_length(bias.form, distance) * g);
}

/// By r1 and by r2, of a distance that is not 0: there the bias is 0, whatever the parameters.
struct KerpleGradient {
  double r1;
  double r2;
};
PHASOR_HD inline KerpleGradient kerple_gradient(const BiasSource& bias, std::int64_t head, std::int64_t distance, double g) {
  const double a = length_of(distance);
  const double r1 = bias.r1[head];
  const double r2 = bias.r2[head];
  if (bias.kerple == KerpleKind::logarithmic) return {-(g * math::log1p_of_product(r2, a).high), -(g * r1 * (a / (1 + r2 * a)))};
  const math::DoubleDouble log = math::log_double_double({a, 0});
  const double power = math::exp_of(log * math::DoubleDouble{r2, 0});
  return {-(g * power), -(g * r1 * power * log.high)};
}

/// By what a perceptron gives, from the gradient of the bias.
PHASOR_HD inline double output_gradient(const BiasSource& bias, double g, double output) {
  return bias.scheme == BiasSource::Scheme::swin_v2 ? g * 16 * math::sigmoid(output) * math::sigmoid(-output) : g;
}

/// By FIRE's c and length, from the gradient by its input x = psi(a) / (psi(M) + epsilon), M = max(length, query):
/// dx/dc = (a / (c a + 1) - x M / (c M + 1)) / (psi(M) + epsilon), and where M is the length,
/// dx/dlength = -x c / (c M + 1) / (psi(M) + epsilon).
struct FireGradient {
  double c;
  double length;
};
PHASOR_HD inline FireGradient fire_gradient(const FireCurve& fire, const FireScale& scale, std::int64_t distance, double x,
                                            double input_gradient) {
  const double g = input_gradient / scale.divisor;
  const double a = length_of(distance);
  const double slowed = fire.c * scale.reach + 1;
  return {g * (a / (fire.c * a + 1) - x * scale.reach / slowed), -(g * x * fire.c / slowed)};
}
/// Whether a query has a gradient by the length.
PHASOR_HD inline bool is_by_length(const FireCurve& fire, std::int64_t query_position) {
  return static_cast<double>(query_position) <= fire.length;
}

}  // namespace phasor::plan
