// SPDX-License-Identifier: Apache-2.0
// The formulas of every scaling, one function each, on exact reals: 0.1 is a tenth, not its float64.
#include "plan/scaling.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <variant>

#include "plan/ladder.hpp"
#include "spec/format.hpp"
#include "spec/rotary.hpp"

namespace phasor::plan {
namespace {

/// w_i = base^(-i/P).
std::vector<Real> unscaled(const Ladder& ladder) { return geometric(1, inverse_root(ladder.base, ladder.pairs), ladder.pairs); }

std::vector<Real> divided(std::vector<Real> frequencies, const std::vector<double>& factors) {
  for (std::size_t i = 0; i < frequencies.size(); ++i) frequencies[i] /= factors[i];
  return frequencies;
}

/// Base times alpha^(R / (R - 2)). The -i/P-th power of the second factor is alpha^(-i / (P - 1)): the last pair slows by alpha.
std::vector<Real> ntk_aware(const Ladder& ladder, const Real& alpha) {
  return geometric(1, inverse_root(ladder.base, ladder.pairs) * inverse_root(alpha, ladder.pairs - 1), ladder.pairs);
}

Result<Scaled> scale_by(const Ladder& ladder, const Unscaled&) { return Scaled{.frequencies = unscaled(ladder)}; }

Result<Scaled> scale_by(const Ladder& ladder, const LinearScaling& s) {
  return Scaled{.frequencies = geometric(1 / Real(s.factor), inverse_root(ladder.base, ladder.pairs), ladder.pairs)};
}

Result<Scaled> scale_by(const Ladder& ladder, const NtkScaling& s) { return Scaled{.frequencies = ntk_aware(ladder, s.alpha)}; }

Result<Scaled> scale_by(const Ladder& ladder, const NtkMixedScaling& s) {
  if (!s.mixed_exponent) {
    const Real slower = inverse_root(s.factor, ladder.pairs);
    return Scaled{.frequencies = geometric(slower, inverse_root(ladder.base, ladder.pairs) * slower, ladder.pairs)};
  }
  // a (i + 1)^b as ln(factor) ((i + 1) / P)^b: the power stays in (0, 1], whatever b.
  Scaled scaled{.frequencies = unscaled(ladder)};
  const Real log_factor = natural_log(Real(s.factor));
  for (std::int64_t i = 0; i < ladder.pairs; ++i) {
    const Real share = exponential(natural_log(Real(i + 1) / ladder.pairs) * *s.mixed_exponent);
    scaled.frequencies[static_cast<std::size_t>(i)] *= exponential(-log_factor * share);
  }
  return scaled;
}

Result<Scaled> scale_by(const Ladder& ladder, const DynamicNtkScaling& s) {
  const Real length = std::max(s.length, s.trained_length);
  const Real factor = s.factor;
  return Scaled{.frequencies = ntk_aware(ladder, factor * length / s.trained_length - (factor - 1))};
}

/// YaRN's g(m).
Real yarn_gain(double factor, double mscale) {
  if (factor <= 1) return 1;
  return natural_log(Real(factor)) * mscale / 10 + 1;
}

Real yarn_amplitude(const YarnScaling& s) {
  if (s.attention_factor) return *s.attention_factor;
  if (s.mscale.value_or(0) != 0 && s.mscale_all_dim.value_or(0) != 0) {
    return yarn_gain(s.factor, *s.mscale) / yarn_gain(s.factor, *s.mscale_all_dim);
  }
  return yarn_gain(s.factor, 1);
}

struct Ramp {
  Real low;   // pair before which nothing is scaled
  Real high;  // pair after which all is
};

/// The pair that turns beta times in the original length is R ln(length / (2 pi beta)) / (2 ln base). Bounded by R - 1, deliberately not
/// by the last pair P - 1: the published formula, and what checkpoints were trained with.
Ramp yarn_ramp(const Ladder& ladder, const YarnScaling& s) {
  const Real per_log = ladder.pairs / natural_log(Real(ladder.base));
  const Real turns = turns_per_radian() * s.original_length;
  Real low = natural_log(turns / s.beta_fast) * per_log;
  Real high = natural_log(turns / s.beta_slow) * per_log;
  if (s.ramp == YarnRamp::truncated) {
    low = floor(low);
    high = ceil(high);
  }
  low = std::max<Real>(low, 0);
  high = std::min<Real>(high, 2 * ladder.pairs - 1);
  if (low == high) high += Real(1) / 1000;
  return {low, high};
}

Result<Scaled> scale_by(const Ladder& ladder, const YarnScaling& s) {
  const Ramp ramp = yarn_ramp(ladder, s);
  if (ramp.low > ramp.high) {  // the published formula then scales exactly the pairs that it should leave alone
    return Status::invalid("RotarySpec: scaling.original_length is " + std::to_string(s.original_length) +
                           ", wanted one in which some pair turns between scaling.beta_slow and scaling.beta_fast times");
  }
  Scaled scaled{.frequencies = unscaled(ladder), .amplitude = yarn_amplitude(s)};
  if (s.softmax == YarnSoftmax::mscale_all_dim_squared) {
    const Real gain = yarn_gain(s.factor, s.mscale_all_dim.value_or(0));
    scaled.softmax_scale = gain * gain;
  }
  const Real slowest = 1 / Real(s.factor);
  const Real per_pair = (1 - slowest) / (ramp.high - ramp.low);
  for (std::int64_t i = 0; i < ladder.pairs; ++i) {
    if (i <= ramp.low) continue;
    scaled.frequencies[static_cast<std::size_t>(i)] *= i < ramp.high ? Real(1 - (i - ramp.low) * per_pair) : slowest;
  }
  return scaled;
}

bool uses_long_factors(const LongRopeScaling& s) {
  if (s.choice == LongRopeChoice::by_length) return s.length > s.original_length;
  return s.choice == LongRopeChoice::long_factors;
}

Real longrope_amplitude(const LongRopeScaling& s) {
  if (s.attention_factor) return *s.attention_factor;
  if (s.factor <= 1) return 1;
  return sqrt(1 + natural_log(Real(s.factor)) / natural_log(Real(s.original_length)));
}

Result<Scaled> scale_by(const Ladder& ladder, const LongRopeScaling& s) {
  return Scaled{.frequencies = divided(unscaled(ladder), uses_long_factors(s) ? s.long_factors : s.short_factors),
                .amplitude = longrope_amplitude(s)};
}

// In turns over the original length, t = length / wavelength: t > high keeps, t < low divides. t is never equal to either (a power
// of the base over 2 pi is irrational), so low = high is an empty ramp that no pair meets.
Result<Scaled> scale_by(const Ladder& ladder, const Llama3Scaling& s) {
  Scaled scaled{.frequencies = unscaled(ladder)};
  const Real slowest = 1 / Real(s.factor);
  const Real turns_per_frequency = turns_per_radian() * s.original_length;
  const Real low = s.low_freq_factor;
  const Real high = s.high_freq_factor;
  for (Real& frequency : scaled.frequencies) {
    const Real turns = frequency * turns_per_frequency;
    if (turns > high) continue;
    frequency *= turns < low ? slowest : Real(slowest + (turns - low) / (high - low) * (1 - slowest));
  }
  return scaled;
}

Result<Scaled> scale_by(const Ladder& ladder, const ProportionalScaling& s) {
  // share * R rounded to float64 first, deliberately: 0.3 of 20 channels is 3 pairs, as Hugging Face counts.
  const double channels = s.share * static_cast<double>(2 * ladder.pairs);
  const auto turning = static_cast<std::int64_t>(channels / 2);
  Scaled scaled{.frequencies = geometric(1 / Real(s.factor), inverse_root(ladder.base, ladder.pairs), turning)};
  scaled.frequencies.resize(static_cast<std::size_t>(ladder.pairs), 0);
  return scaled;
}

Result<Scaled> scale_by(const Ladder& ladder, const GivenFactors& s) {
  return Scaled{.frequencies = divided(unscaled(ladder), s.factors), .amplitude = s.amplitude};
}

Result<Scaled> scale_by(const Ladder&, const GivenDirections& s) {
  return Scaled{.frequencies = {s.frequencies.begin(), s.frequencies.end()}};
}

Result<Scaled> scale_by(const Ladder&, const GivenFrequencies& s) {
  return Scaled{.frequencies = {s.frequencies.begin(), s.frequencies.end()}, .amplitude = s.amplitude};
}

Real power_of_ten(int n) {
  Real power = 1;
  Real square = n < 0 ? Real(1) / Real(10) : Real(10);
  for (int rest = std::abs(n); rest > 0; rest /= 2) {
    if (rest % 2 != 0) power *= square;
    square *= square;
  }
  return power;
}

/// Six digits for a message, as Real::str has them; that would bring Boost's streams into every program, a tenth of a page's module.
std::string words(const Real& x) {
  const auto value = static_cast<double>(x);
  const bool is_finite = x * Real(0) == Real(0);
  if (std::isnormal(value) || x == Real(0) || !is_finite) return spec::format("{:.6g}", value);
  // Beyond float64: the digits as a whole number of six places, the exponent first to within one.
  int exponent = static_cast<int>(std::floor(x.parts().exponent * std::log10(2.0)));
  const auto digits_at = [&](int e) { return static_cast<std::int64_t>(abs(x) * power_of_ten(5 - e) + Real(0.5)); };
  while (digits_at(exponent) >= 1'000'000) ++exponent;
  return spec::format("{}{:.6g}e{:+}", x.parts().negative ? "-" : "", static_cast<double>(digits_at(exponent)) / 1e5, exponent);
}

/// Valid fields can still multiply to nonsense: a base of 1e-300, an mscale of 1e300.
Status check_range(const Scaled& scaled, FrequencyUnit unit) {
  static const Real fastest = ldexp(Real(1), 64);  // radians per position: below 2^62 turns
  static const Real largest = ldexp(Real(1), 64);
  static const Real smallest = ldexp(Real(1), -64);
  // A step has 192 bits below the point: at 2^-130, 60 of them are left, and a rounding stays undecided with a chance of 2^-36.
  static const Real slowest = ldexp(Real(1), -130);
  for (std::size_t i = 0; i < scaled.frequencies.size(); ++i) {
    const Real frequency = unit == FrequencyUnit::turns ? Real(scaled.frequencies[i] * radians_per_turn()) : scaled.frequencies[i];
    const Real speed = abs(frequency);
    if (speed == 0 || (speed >= slowest && speed < fastest)) continue;
    return Status::invalid("RotarySpec: the frequency of pair " + std::to_string(i) + " is " + words(frequency) +
                           ", wanted 0 or 2^-130 to 2^64 radians per position");
  }
  const auto fits = [](const Real& x) { return x >= smallest && x <= largest; };
  if (!fits(scaled.amplitude)) {
    return Status::invalid("RotarySpec: the amplitude of the scaling is " + words(scaled.amplitude) + ", wanted 2^-64 to 2^64");
  }
  if (!fits(scaled.softmax_scale)) {
    return Status::invalid("RotarySpec: the softmax scale of the scaling is " + words(scaled.softmax_scale) + ", wanted 2^-64 to 2^64");
  }
  return {};
}

}  // namespace

Result<Scaled> scale_ladder(const Ladder& ladder, const Scaling& scaling) {
  return std::visit([&](const auto& s) { return scale_by(ladder, s); }, scaling);
}

Result<Scaled> scale(const RotarySpec& spec) {
  Result<Scaled> scaled = scale_axes(spec);
  if (!scaled) return scaled;
  if (Status status = check_range(*scaled, spec.unit); !status) return status;
  return scaled;
}

}  // namespace phasor::plan
