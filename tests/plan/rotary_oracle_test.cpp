// SPDX-License-Identifier: Apache-2.0
// Plans of every scaling, random parameters, against MPFR at 512 bits: steps bit for bit, every float64 the nearest.
#include "plan/rotary.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <variant>
#include <vector>

#include "plan/mpfr_real.hpp"

namespace phasor::test {
namespace {

using oracle::MpfrReal;

struct Expected {
  std::vector<MpfrReal> frequencies;
  MpfrReal amplitude = 1;
  MpfrReal softmax_scale = 1;
  bool valid = true;
};

// ---- The published formulas, straight from their definitions: every frequency is its own power. ----

MpfrReal integer(std::int64_t n) { return MpfrReal::of_integer(n); }

std::vector<MpfrReal> ladder(const MpfrReal& base, std::int64_t width) {
  std::vector<MpfrReal> w;
  for (std::int64_t i = 0; i < width / 2; ++i) w.push_back(MpfrReal(1) / oracle::power(base, integer(2 * i) / integer(width)));
  return w;
}

MpfrReal ntk_base(double base, const MpfrReal& alpha, std::int64_t width) {
  return MpfrReal(base) * oracle::power(alpha, integer(width) / integer(width - 2));
}

Expected expect(double base, std::int64_t width, const Unscaled&) { return {.frequencies = ladder(base, width)}; }

Expected expect(double base, std::int64_t width, const LinearScaling& s) {
  Expected e{.frequencies = ladder(base, width)};
  for (MpfrReal& w : e.frequencies) w = w / s.factor;
  return e;
}

Expected expect(double base, std::int64_t width, const NtkScaling& s) {
  return {.frequencies = ladder(ntk_base(base, s.alpha, width), width)};
}

Expected expect(double base, std::int64_t width, const NtkMixedScaling& s) {
  const MpfrReal factor = s.factor;
  if (!s.mixed_exponent) {
    Expected e{.frequencies = ladder(MpfrReal(base) * factor, width)};
    for (MpfrReal& w : e.frequencies) w = w / oracle::power(factor, MpfrReal(2) / integer(width));
    return e;
  }
  Expected e{.frequencies = ladder(base, width)};
  const MpfrReal a = oracle::log_of(factor) / oracle::power(integer(width / 2), *s.mixed_exponent);
  for (std::size_t i = 0; i < e.frequencies.size(); ++i) {
    const MpfrReal lambda = oracle::exp_of(a * oracle::power(integer(static_cast<std::int64_t>(i) + 1), *s.mixed_exponent));
    e.frequencies[i] = e.frequencies[i] / lambda;
  }
  return e;
}

Expected expect(double base, std::int64_t width, const DynamicNtkScaling& s) {
  const MpfrReal longest = integer(s.length > s.trained_length ? s.length : s.trained_length);
  const MpfrReal alpha = MpfrReal(s.factor) * longest / integer(s.trained_length) - (MpfrReal(s.factor) - 1);
  return {.frequencies = ladder(ntk_base(base, alpha, width), width)};
}

MpfrReal gain(double factor, double mscale) {
  if (factor <= 1) return 1;
  return MpfrReal(mscale) * oracle::log_of(factor) / 10 + 1;
}

Expected expect(double base, std::int64_t width, const YarnScaling& s) {
  const auto pair_of = [&](double turns) {
    const MpfrReal ratio = integer(s.original_length) / (MpfrReal(2) * MpfrReal::pi() * turns);
    return integer(width) * oracle::log_of(ratio) / (MpfrReal(2) * oracle::log_of(base));
  };
  MpfrReal low = pair_of(s.beta_fast);
  MpfrReal high = pair_of(s.beta_slow);
  if (s.ramp == YarnRamp::truncated) {
    low = oracle::floor_of(low);
    high = oracle::ceil_of(high);
  }
  if (low < 0) low = 0;
  if (high > integer(width - 1)) high = integer(width - 1);
  if (low == high) high = high + MpfrReal(1) / 1000;
  Expected e{.frequencies = ladder(base, width), .valid = !(low > high)};
  for (std::size_t i = 0; i < e.frequencies.size(); ++i) {
    MpfrReal gamma = (integer(static_cast<std::int64_t>(i)) - low) / (high - low);
    if (gamma < 0) gamma = 0;
    if (gamma > 1) gamma = 1;
    e.frequencies[i] = e.frequencies[i] / s.factor * gamma + e.frequencies[i] * (MpfrReal(1) - gamma);
  }
  const double all = s.mscale_all_dim.value_or(0);
  e.amplitude = gain(s.factor, 1);
  if (s.mscale.value_or(0) != 0 && all != 0) e.amplitude = gain(s.factor, *s.mscale) / gain(s.factor, all);
  if (s.attention_factor) e.amplitude = *s.attention_factor;
  if (s.softmax == YarnSoftmax::mscale_all_dim_squared) e.softmax_scale = gain(s.factor, all) * gain(s.factor, all);
  return e;
}

Expected expect(double base, std::int64_t width, const LongRopeScaling& s) {
  Expected e{.frequencies = ladder(base, width)};
  const bool is_long = s.choice == LongRopeChoice::by_length ? s.length > s.original_length : s.choice == LongRopeChoice::long_factors;
  for (std::size_t i = 0; i < e.frequencies.size(); ++i) {
    e.frequencies[i] = e.frequencies[i] / (is_long ? s.long_factors[i] : s.short_factors[i]);
  }
  if (s.factor > 1) e.amplitude = oracle::sqrt_of(MpfrReal(1) + oracle::log_of(s.factor) / oracle::log_of(integer(s.original_length)));
  if (s.attention_factor) e.amplitude = *s.attention_factor;
  return e;
}

Expected expect(double base, std::int64_t width, const Llama3Scaling& s) {
  Expected e{.frequencies = ladder(base, width)};
  const MpfrReal length = integer(s.original_length);
  for (MpfrReal& w : e.frequencies) {
    const MpfrReal wavelength = MpfrReal(2) * MpfrReal::pi() / w;
    if (wavelength < length / s.high_freq_factor) continue;
    if (wavelength > length / s.low_freq_factor) {
      w = w / s.factor;
    } else {
      const MpfrReal smooth = (length / wavelength - s.low_freq_factor) / (MpfrReal(s.high_freq_factor) - s.low_freq_factor);
      w = (MpfrReal(1) - smooth) * w / s.factor + smooth * w;
    }
  }
  return e;
}

Expected expect(double base, std::int64_t width, const ProportionalScaling& s) {
  Expected e{.frequencies = ladder(base, width)};
  const auto turning = static_cast<std::size_t>(std::floor(s.share * static_cast<double>(width) / 2));  // Python: int(share * R // 2)
  for (std::size_t i = 0; i < e.frequencies.size(); ++i) e.frequencies[i] = i < turning ? e.frequencies[i] / s.factor : MpfrReal(0);
  return e;
}

Expected expect(double base, std::int64_t width, const GivenFactors& s) {
  Expected e{.frequencies = ladder(base, width), .amplitude = s.amplitude};
  for (std::size_t i = 0; i < e.frequencies.size(); ++i) e.frequencies[i] = e.frequencies[i] / s.factors[i];
  return e;
}

Expected expect(double, std::int64_t, const GivenDirections& s) { return {.frequencies = {s.frequencies.begin(), s.frequencies.end()}}; }

Expected expect(double, std::int64_t, const GivenFrequencies& s) {
  return {.frequencies = {s.frequencies.begin(), s.frequencies.end()}, .amplitude = s.amplitude};
}

// ---- Comparison ----

bool same(const math::Step& a, const math::Step& b) { return std::equal(a.fraction, a.fraction + 3, b.fraction) && a.whole == b.whole; }

void compare_pair(const plan::RotaryPlan& plan, std::size_t i, const MpfrReal& frequency) {
  const math::Step step = oracle::step_of(frequency);
  EXPECT_TRUE(same(plan.steps[i], step)) << "step of pair " << i;
  EXPECT_EQ(plan.frequencies[i], frequency.nearest_double()) << "frequency of pair " << i;
  const MpfrReal turn = oracle::radians_of(step);
  EXPECT_EQ(plan.turn_cos[i], oracle::cos_of(turn).nearest_double()) << "cosine of pair " << i;
  EXPECT_EQ(plan.turn_sin[i], oracle::sin_of(turn).nearest_double()) << "sine of pair " << i;
}

std::int64_t turning_pairs(const std::vector<MpfrReal>& frequencies) {
  std::size_t n = frequencies.size();
  while (n > 0 && same(oracle::step_of(frequencies[n - 1]), math::Step{})) --n;
  return static_cast<std::int64_t>(n);
}

void compare(const RotarySpec& spec) {
  const std::int64_t width = spec.rotary_width == 0 ? spec.head_dim : spec.rotary_width;
  const Expected expected = std::visit([&](const auto& s) { return expect(spec.base, width, s); }, spec.scaling);
  const auto plan = plan::make_rotary_plan(spec);
  ASSERT_EQ(plan.ok(), expected.valid) << plan.status().message();
  if (!plan) return;
  const std::size_t pairs = expected.frequencies.size();  // of directions: (axes, heads, pairs)
  EXPECT_EQ(plan->spec.rotary_width, width);
  ASSERT_EQ(plan->steps.size(), pairs);
  ASSERT_EQ(plan->frequencies.size(), pairs);
  ASSERT_EQ(plan->turn_cos.size(), pairs);
  ASSERT_EQ(plan->turn_sin.size(), pairs);
  for (std::size_t i = 0; i < pairs; ++i) compare_pair(*plan, i, expected.frequencies[i]);
  EXPECT_EQ(plan->turning_pairs, turning_pairs(expected.frequencies));
  EXPECT_EQ(plan->amplitude, expected.amplitude.nearest_double());
  EXPECT_EQ(plan->inverse_amplitude, (MpfrReal(1) / plan->amplitude).nearest_double());
  EXPECT_EQ(plan->softmax_scale, expected.softmax_scale.nearest_double());
}

// ---- Random parameters ----

class Draw {
 public:
  explicit Draw(std::uint64_t seed) : bits_(seed) {}
  std::int64_t integer(std::int64_t from, std::int64_t to) {
    return from + static_cast<std::int64_t>(bits_() % static_cast<std::uint64_t>(to - from + 1));
  }
  bool coin() { return (bits_() >> 40) % 2 == 0; }
  double uniform(double from, double to) { return from + (to - from) * static_cast<double>(bits_() >> 11) * 0x1p-53; }
  double log_uniform(double from, double to) { return std::exp(uniform(std::log(from), std::log(to))); }
  std::int64_t length() { return static_cast<std::int64_t>(log_uniform(16, 4e6)); }
  std::vector<double> list(std::int64_t n, double from, double to) {
    std::vector<double> v;
    for (std::int64_t i = 0; i < n; ++i) v.push_back(log_uniform(from, to));
    return v;
  }
  std::optional<double> maybe(double from, double to) { return coin() ? std::optional<double>(uniform(from, to)) : std::nullopt; }
  RotarySpec spec(double smallest_base) {
    constexpr double published[] = {1e4, 5e5, 1e6, 1.6e5, 1.5e5, 100};
    RotarySpec s;
    s.rotary_width = 2 * integer(2, coin() ? 16 : 80);
    s.head_dim = s.rotary_width + integer(0, 9);
    s.base = coin() ? published[integer(0, 5)] : log_uniform(smallest_base, 1e9);
    return s;
  }

 private:
  std::mt19937_64 bits_;
};

template <class Make>
void compare_many(std::uint64_t seed, int specs, double smallest_base, Make make) {
  Draw draw(seed);
  for (int n = 0; n < specs && !testing::Test::HasFailure(); ++n) {
    RotarySpec spec = draw.spec(smallest_base);
    spec.scaling = make(draw, spec.rotary_width / 2);
    SCOPED_TRACE("seed " + std::to_string(seed) + ", spec " + std::to_string(n));
    compare(spec);
  }
}

TEST(RotaryPlanOracle, unscaled_ladders_agree) {
  compare_many(1, 200, 0.01, [](Draw&, std::int64_t) { return Unscaled{}; });
}

TEST(RotaryPlanOracle, ladders_of_awkward_widths_and_bases_agree) {
  for (const std::int64_t width : {2, 4, 6, 126, 128, 512, 1030}) {
    for (const double base : {1e4, 1.0, 0.25, 1e-15, 1e39, 0x1p-60, 1 + 0x1p-52, 3.0}) {
      RotarySpec spec;
      spec.head_dim = width;
      spec.base = base;
      SCOPED_TRACE("width " + std::to_string(width) + ", base " + std::to_string(base));
      compare(spec);
    }
  }
}

TEST(RotaryPlanOracle, linear_scaling_agrees) {
  compare_many(2, 120, 0.01, [](Draw& d, std::int64_t) { return LinearScaling{d.log_uniform(0.1, 1e3)}; });
}

TEST(RotaryPlanOracle, ntk_scaling_agrees) {
  compare_many(3, 120, 0.01, [](Draw& d, std::int64_t) { return NtkScaling{d.log_uniform(0.1, 1e5)}; });
}

TEST(RotaryPlanOracle, ntk_mixed_scaling_agrees_in_both_forms) {
  compare_many(4, 120, 0.01, [](Draw& d, std::int64_t) { return NtkMixedScaling{d.log_uniform(0.1, 1e3), d.maybe(0, 3)}; });
}

TEST(RotaryPlanOracle, dynamic_ntk_scaling_agrees) {
  compare_many(5, 120, 0.01,
               [](Draw& d, std::int64_t) { return DynamicNtkScaling{d.log_uniform(0.1, 100), d.length(), d.coin() ? 0 : d.length()}; });
}

TEST(RotaryPlanOracle, yarn_scaling_agrees) {
  compare_many(6, 300, 1.5, [](Draw& d, std::int64_t) {
    YarnScaling s;
    s.factor = d.log_uniform(0.5, 200);
    s.original_length = d.length();
    s.beta_slow = d.coin() ? 1 : d.log_uniform(0.1, 4);
    s.beta_fast = d.coin() ? 32 : d.log_uniform(4.5, 100);
    s.ramp = d.coin() ? YarnRamp::exact : YarnRamp::truncated;
    if (d.integer(0, 3) == 0) s.attention_factor = d.log_uniform(0.1, 10);
    s.mscale = d.integer(0, 4) == 0 ? 0 : d.maybe(0.1, 2);
    s.mscale_all_dim = d.integer(0, 4) == 0 ? 0 : d.maybe(0.1, 2);
    s.softmax = d.integer(0, 3) == 0 ? YarnSoftmax::unchanged : YarnSoftmax::mscale_all_dim_squared;
    return s;
  });
}

TEST(RotaryPlanOracle, longrope_scaling_agrees) {
  compare_many(7, 150, 0.01, [](Draw& d, std::int64_t pairs) {
    LongRopeScaling s;
    s.short_factors = d.list(pairs, 0.5, 4);
    s.long_factors = d.list(pairs, 0.5, 100);
    s.original_length = d.length();
    s.factor = d.log_uniform(0.5, 64);
    s.attention_factor = d.maybe(0.5, 2);
    s.choice = static_cast<LongRopeChoice>(d.integer(0, 2));
    s.length = d.coin() ? d.length() : s.original_length + d.integer(0, 1);
    return s;
  });
}

TEST(RotaryPlanOracle, llama3_scaling_agrees) {
  compare_many(8, 150, 0.01, [](Draw& d, std::int64_t) {
    Llama3Scaling s;
    s.factor = d.log_uniform(0.5, 64);
    s.low_freq_factor = d.log_uniform(0.1, 8);
    s.high_freq_factor = s.low_freq_factor * (d.integer(0, 5) == 0 ? 1 : d.uniform(1, 8));
    s.original_length = d.length();
    return s;
  });
}

TEST(RotaryPlanOracle, proportional_scaling_agrees) {
  compare_many(9, 120, 0.01, [](Draw& d, std::int64_t) {
    return ProportionalScaling{d.log_uniform(0.5, 8), d.coin() ? static_cast<double>(d.integer(0, 10)) / 10 : d.uniform(0, 1)};
  });
}

TEST(RotaryPlanOracle, given_factors_agree) {
  compare_many(10, 120, 0.01, [](Draw& d, std::int64_t pairs) {
    GivenFactors s{d.list(pairs, 1e-3, 1e5), d.log_uniform(0.1, 10)};
    if (d.coin()) s.factors.back() = 1e30;  // how GGUF says that a pair does not turn
    return s;
  });
}

TEST(RotaryPlanOracle, given_frequencies_of_any_size_and_sign_agree) {
  compare_many(11, 150, 0.01, [](Draw& d, std::int64_t pairs) {
    GivenFrequencies s{d.list(pairs, 1e-39, 0x1p63), d.log_uniform(0.1, 10)};
    for (double& w : s.frequencies) w = d.coin() ? w : -w;
    s.frequencies[0] = d.coin() ? 6.283185307179586 : -6.283185307179586;
    s.frequencies[1] = d.coin() ? -0x1p-130 : 0x1.fffffffffffffp63;
    if (d.coin()) s.frequencies.back() = 0;
    return s;
  });
}

TEST(RotaryPlanOracle, given_directions_of_any_size_and_sign_agree) {
  compare_many(12, 60, 0.01, [](Draw& d, std::int64_t pairs) {
    GivenDirections s{d.integer(1, 4), d.integer(1, 3), {}};
    s.frequencies = d.list(s.axes * s.heads * pairs, 1e-39, 0x1p63);
    for (double& w : s.frequencies) w = d.coin() ? w : -w;
    if (d.coin()) s.frequencies.back() = 0;
    return s;
  });
}

}  // namespace
}  // namespace phasor::test
