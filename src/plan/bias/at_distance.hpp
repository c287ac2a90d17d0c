// SPDX-License-Identifier: Apache-2.0
// What each scheme has at one distance, in float64: the formulas that values, gradients and every device share.
#pragma once

#include <cstdint>

#include "math/elementary.hpp"
#include "plan/bias/source.hpp"
#include "spec/bias.hpp"

namespace phasor::plan {

/// |r|, exact up to 2^53.
PHASOR_HD inline double length_of(std::int64_t distance) {
  const auto r = static_cast<double>(distance);
  return r < 0 ? -r : r;
}

/// What a slope multiplies, with the sign turned.
PHASOR_HD inline double alibi_length(AlibiForm form, std::int64_t distance) {
  if (form == AlibiForm::symmetric) return length_of(distance);
  if (form == AlibiForm::causal) return distance > 0 ? static_cast<double>(distance) : 0;
  return static_cast<double>(distance);
}
PHASOR_HD inline double alibi_value(const BiasSource& bias, std::int64_t head, std::int64_t distance) {
  return 0 - bias.slopes[head] * alibi_length(bias.form, distance);  // 0 - 0 is not -0
}

/// A slope as its spec rounds it.
PHASOR_HD inline double rounded_slope(double slope, SlopeRounding rounding) {
  if (rounding == SlopeRounding::float64) return slope;
  return math::widen_bf16(math::One<float>(), static_cast<math::u32>(math::bf16_of(slope)));
}

PHASOR_HD inline double kerple_value(const BiasSource& bias, std::int64_t head, std::int64_t distance) {
  const double a = length_of(distance);
  if (a == 0) return 0.0;
  if (bias.kerple != KerpleKind::power) return -(math::log1p_of_product(bias.r2[head], a) * math::DoubleDouble{bias.r1[head], 0}).high;
  return -math::exp_of(math::log_double_double({a, 0}) * math::DoubleDouble{bias.r2[head], 0}, bias.r1[head]);
}

/// H times the sum of the cosines, then the value of a head.
PHASOR_HD inline math::DoubleDouble sandwich_sum(const BiasSource& bias, std::int64_t distance) {
  math::DoubleDouble sum = {0, 0};
  for (std::int64_t pair = 0; pair < bias.step_count; ++pair) {
    sum = sum + math::sincos_double_double(math::phase_of(bias.steps[pair], distance)).cos;
  }
  return sum * math::DoubleDouble{static_cast<double>(bias.heads), 0};
}
PHASOR_HD inline double sandwich_value(math::DoubleDouble sum, std::int64_t head) {
  return math::detail::divide(sum, {8.0 * static_cast<double>(head + 1), 0}).high;
}

// ---- FIRE ----

PHASOR_HD inline double psi(const FireCurve& fire, double x) { return math::log1p_of_product(fire.c, x).high; }
PHASOR_HD inline double fire_psi(const FireCurve& fire, std::int64_t distance) { return psi(fire, length_of(distance)); }

/// FIRE's divisor, and what it is made of.
struct FireScale {
  double reach;    // max(length, query position)
  double divisor;  // psi(reach) + epsilon
};
PHASOR_HD inline FireScale fire_scale(const FireCurve& fire, std::int64_t query_position) {
  const auto query = static_cast<double>(query_position);
  const double reach = fire.length < query ? query : fire.length;
  return {reach, psi(fire, reach) + fire.epsilon};
}

// ---- Perceptrons ----

/// The inputs of the perceptron of DynamicMlp or SwinV2 at a distance: one, or two for SwinV2.
struct MlpInputs {
  double values[2];
};

/// sign(x) log2(1 + 8 |x| / (w - 1)) / 3. Of whole numbers only, so that nothing is lost: ln((w - 1 + 8 |x|) / (w - 1)) / ln(8).
PHASOR_HD inline double log_coordinate(std::int64_t offset, std::int64_t window) {
  if (offset == 0) return 0;
  const double steps = static_cast<double>(window - 1);
  const auto top = math::log_double_double({steps + 8 * length_of(offset), 0});
  const auto bottom = math::log_double_double({steps, 0});
  const double g = math::detail::divide(top + -bottom, math::detail::ln2() * math::DoubleDouble{3, 0}).high;
  return offset < 0 ? -g : g;
}

PHASOR_HD inline MlpInputs mlp_inputs(const BiasSource& bias, std::int64_t distance) {
  if (bias.scheme == BiasSource::Scheme::swin_v2) {
    const Window& window = bias.window;
    const std::int64_t width = 2 * window.width - 1;
    const std::int64_t row = distance + spec::window_rows(window) / 2;
    return {{log_coordinate(row / width - (window.height - 1), bias.trained.height),
             log_coordinate(row % width - (window.width - 1), bias.trained.width)}};
  }
  if (bias.scale == DistanceScale::linear) return {{static_cast<double>(distance), 0}};
  const double g = math::log1p_of_product(1, length_of(distance)).high;
  return {{distance < 0 ? -g : g, 0}};
}

/// What a perceptron reads at a distance, and for FIRE of a query with that scale.
PHASOR_HD inline MlpInputs perceptron_inputs(const BiasSource& bias, std::int64_t distance, const FireScale& scale) {
  if (bias.scheme == BiasSource::Scheme::fire) return {{fire_psi(bias.fire, distance) / scale.divisor, 0}};
  return mlp_inputs(bias, distance);
}
/// The bias of what a perceptron gives.
PHASOR_HD inline double perceptron_value(const BiasSource& bias, double output) {
  return bias.scheme == BiasSource::Scheme::swin_v2 ? 16 * math::sigmoid(output) : output;
}

PHASOR_HD inline bool has_perceptron(const BiasSource& bias) { return bias.mlp.width_count != 0; }

}  // namespace phasor::plan
