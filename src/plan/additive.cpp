// SPDX-License-Identifier: Apache-2.0
// The plan of a sinusoidal spec: each ladder's exact reals rounded to steps and float64, once.
#include "plan/additive.hpp"

#include <string>

#include "math/sincos.hpp"
#include "plan/real.hpp"
#include "spec/without_exceptions.hpp"

namespace phasor::plan {
namespace {

/// base^(-1 / n) of a real n: the root where n is a whole number, which is faster.
Real inverse_power(double base, const Real& n) {
  const auto whole = static_cast<std::int64_t>(n);
  if (n == whole && whole <= 1 << 20) return inverse_root(base, whole);
  return exponential(-natural_log(Real(base)) / n);
}

std::vector<Real> frequencies_of(const GeometricLadder& ladder, const spec::AxisPart& part) {
  if (part.pairs < 2) return std::vector<Real>(static_cast<std::size_t>(part.pairs), 1);
  const Real pairs = part.unpaired ? part.pairs - Real(0.5) : Real(part.pairs);
  return geometric(1, inverse_power(ladder.base, pairs - ladder.shift), part.pairs);
}

std::vector<Real> frequencies_of(const LogSpacedLadder& ladder, const spec::AxisPart& part) {
  if (part.pairs < 2) return std::vector<Real>(static_cast<std::size_t>(part.pairs), ladder.fastest);
  return geometric(ladder.fastest, inverse_root(Real(ladder.fastest) / ladder.slowest, part.pairs - 1), part.pairs);
}

/// In turns of half a circle: the unit is added later.
std::vector<Real> frequencies_of(const BandLadder& ladder, const spec::AxisPart& part) {
  if (part.pairs < 2) return std::vector<Real>(static_cast<std::size_t>(part.pairs), Real(0.5));
  const Real last = Real(ladder.highest) / 2;
  if (ladder.spacing == BandLadder::Spacing::ratio) return geometric(Real(0.5), inverse_root(1 / last, part.pairs - 1), part.pairs);
  std::vector<Real> bands;
  bands.reserve(static_cast<std::size_t>(part.pairs));
  for (std::int64_t i = 0; i < part.pairs; ++i) bands.push_back((1 + (last - 1) * i / (part.pairs - 1)) / 2);
  return bands;
}

std::vector<Real> frequencies_of(const GivenLadder& ladder, const spec::AxisPart& part) {
  const auto first = ladder.frequencies.begin() + part.pair;
  return {first, first + part.pairs};
}

/// A step has 192 bits below the point: at 2^-130, 60 of them are left.
Status check_frequency(const Real& radians) {
  static const Real smallest = ldexp(Real(1), -130);
  static const Real largest = ldexp(Real(1), 64);
  if (radians == 0 || (abs(radians) >= smallest && abs(radians) <= largest)) return {};
  return Status::invalid("SinusoidalSpec: a frequency is " + std::to_string(nearest_double(radians)) +
                         ", wanted 0 or 2^-130 to 2^64 radians per position");
}

Status add_pair(SinusoidalPlan& plan, const Real& frequency) {
  const bool in_turns = plan.spec.unit == FrequencyUnit::turns || std::holds_alternative<BandLadder>(plan.spec.ladder);
  const Real scaled = frequency * plan.spec.position_scale;
  const Real radians = in_turns ? Real(scaled * radians_per_turn()) : scaled;
  if (Status s = check_frequency(radians); !s) return s;
  const math::Step step = in_turns ? step_of_turns(scaled) : step_of(scaled);
  plan.steps.push_back(step);
  plan.frequencies.push_back(nearest_double(radians));
  double cos = 1;
  double sin = 0;
  math::sincos_double(math::phase_of(step, std::int64_t{1}), 1.0, cos, sin);
  plan.turn_cos.push_back(cos);
  plan.turn_sin.push_back(sin);
  if (scaled != 0) plan.turning_pairs = static_cast<std::int64_t>(plan.steps.size());
  return {};
}

Result<SinusoidalPlan> build(const SinusoidalSpec& spec) {
  if (Status s = spec::check(spec); !s) return s;
  SinusoidalPlan plan;
  plan.spec = spec;
  plan.parts = spec::axis_parts(spec);
  for (const spec::AxisPart& part : plan.parts) {
    for (const Real& frequency : std::visit([&](const auto& ladder) { return frequencies_of(ladder, part); }, spec.ladder)) {
      if (Status s = add_pair(plan, frequency); !s) return s;
    }
  }
  return plan;
}

}  // namespace

Result<SinusoidalPlan> make_sinusoidal_plan(const SinusoidalSpec& spec) {
  return spec::without_exceptions("SinusoidalSpec", [&] { return build(spec); });
}

ShiftOperator make_shift(const SinusoidalPlan& plan, std::span<const double> distances) {
  ShiftOperator shift{.width = plan.spec.width};
  for (const spec::AxisPart& part : plan.parts) {
    for (std::int64_t i = 0; i < part.pairs; ++i) {
      const PairChannels channels = channels_of(part, plan.spec.order, i);
      ShiftOperator::Pair pair = {channels.sin, channels.cos, 1, 0};
      math::sincos(plan.steps[static_cast<std::size_t>(part.pair + i)], distances[static_cast<std::size_t>(part.axis)], 1.0, pair.cos,
                   pair.sin);
      shift.pairs.push_back(pair);
    }
  }
  return shift;
}

}  // namespace phasor::plan
