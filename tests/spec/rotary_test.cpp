// SPDX-License-Identifier: Apache-2.0
// Every field of a rotary spec that does not fit is an error that names it, says what it is and what is wanted.
#include "spec/rotary.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "spec/bad_specs.hpp"

namespace phasor::test {
namespace {

using test::expect_messages;

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double inf = std::numeric_limits<double>::infinity();

RotarySpec with(Scaling scaling) {
  RotarySpec spec;
  spec.head_dim = 8;
  spec.scaling = std::move(scaling);
  return spec;
}

template <class S, class Change>
RotarySpec changed(S scaling, Change change) {
  change(scaling);
  return with(scaling);
}

template <class Change>
RotarySpec changed(Change change) {
  RotarySpec spec = with(Unscaled{});
  change(spec);
  return spec;
}

YarnScaling yarn() {
  YarnScaling s;
  s.factor = 4;
  s.original_length = 4096;
  return s;
}

LongRopeScaling longrope() {
  LongRopeScaling s;
  s.short_factors = {1, 1, 1, 1};
  s.long_factors = {1, 2, 3, 4};
  s.original_length = 4096;
  s.factor = 32;
  s.length = 100;
  return s;
}

TEST(RotarySpecCheck, widths_and_offsets_that_do_not_fit_the_head_are_named) {
  constexpr std::int64_t huge = std::numeric_limits<std::int64_t>::max();
  expect_messages({
      {changed([](RotarySpec& s) { s.head_dim = 0; }), "head_dim is 0, wanted a number above 0"},
      {changed([](RotarySpec& s) { s.head_dim = -8; }), "head_dim is -8, wanted a number above 0"},
      {changed([](RotarySpec& s) { s.head_dim = 7; }), "head_dim is 7, wanted an even number"},
      {changed([](RotarySpec& s) { s.rotary_width = 7; }), "rotary_width is 7, wanted an even number"},
      {changed([](RotarySpec& s) { s.rotary_width = -2; }), "rotary_width is -2, wanted a number above 0, or 0 for head_dim"},
      {changed([](RotarySpec& s) { s.rotary_width = 10; }), "rotary_width is 10, wanted at most head_dim, 8"},
      {changed([](RotarySpec& s) { s.head_dim = huge - 1; }), "rotary_width is 9223372036854775806, wanted at most 1048576"},
      {changed([](RotarySpec& s) { s.rotary_offset = -1; }), "rotary_offset is -1, wanted 0 or above"},
      {changed([](RotarySpec& s) { s.rotary_offset = 1; }), "rotary_offset is 1, wanted at most head_dim - rotary_width, 0"},
      {changed([](RotarySpec& s) { s.rotary_width = 4, s.rotary_offset = 5; }),
       "rotary_offset is 5, wanted at most head_dim - rotary_width, 4"},
      {changed([](RotarySpec& s) { s.rotary_width = 4, s.rotary_offset = huge; }),
       "rotary_offset is 9223372036854775807, wanted at most head_dim - rotary_width, 4"},
  });
}

TEST(RotarySpecCheck, bases_and_enumerations_out_of_range_are_named) {
  expect_messages({
      {changed([](RotarySpec& s) { s.base = 0; }), "base is 0, wanted a finite number above 0"},
      {changed([](RotarySpec& s) { s.base = -10000; }), "base is -10000, wanted a finite number above 0"},
      {changed([](RotarySpec& s) { s.base = inf; }), "base is inf, wanted a finite number above 0"},
      {changed([](RotarySpec& s) { s.base = std::copysign(nan, -1.0); }), "base is nan, wanted a finite number above 0"},
      {changed([](RotarySpec& s) { s.pairing = static_cast<Pairing>(2); }), "pairing is 2, wanted half or interleaved"},
      {changed([](RotarySpec& s) { s.output_pairing = static_cast<Pairing>(255); }), "output_pairing is 255, wanted half or interleaved"},
      {changed([](RotarySpec& s) { s.sense = static_cast<Sense>(2); }), "sense is 2, wanted counterclockwise or clockwise"},
  });
}

TEST(RotarySpecCheck, factors_of_the_simple_scalings_are_named) {
  RotarySpec narrow = with(NtkScaling{2});
  narrow.rotary_width = 2;
  RotarySpec narrow_dynamic = with(DynamicNtkScaling{2, 10, 20});
  narrow_dynamic.rotary_width = 2;
  expect_messages({
      {with(LinearScaling{-1}), "scaling.factor is -1, wanted a finite number above 0"},
      {with(LinearScaling{0}), "scaling.factor is 0, wanted a finite number above 0"},
      {with(LinearScaling{inf}), "scaling.factor is inf, wanted a finite number above 0"},
      {with(NtkScaling{nan}), "scaling.alpha is nan, wanted a finite number above 0"},
      {narrow, "rotary_width is 2, wanted more than 2 for NTK scaling"},
      {narrow_dynamic, "rotary_width is 2, wanted more than 2 for NTK scaling"},
      {with(NtkMixedScaling{0, 0.5}), "scaling.factor is 0, wanted a finite number above 0"},
      {with(NtkMixedScaling{4, -0.5}), "scaling.mixed_exponent is -0.5, wanted a finite number, 0 or above"},
      {with(NtkMixedScaling{4, nan}), "scaling.mixed_exponent is nan, wanted a finite number, 0 or above"},
      {with(DynamicNtkScaling{-2, 10, 20}), "scaling.factor is -2, wanted a finite number above 0"},
      {with(DynamicNtkScaling{2, 0, 20}), "scaling.trained_length is 0, wanted a number above 0"},
      {with(DynamicNtkScaling{2, 10, -1}), "scaling.length is -1, wanted 0 or above"},
      {with(ProportionalScaling{0, 0.5}), "scaling.factor is 0, wanted a finite number above 0"},
      {with(ProportionalScaling{1, 1.25}), "scaling.share is 1.25, wanted 0 to 1"},
      {with(ProportionalScaling{1, -0.25}), "scaling.share is -0.25, wanted 0 to 1"},
      {with(ProportionalScaling{1, nan}), "scaling.share is nan, wanted 0 to 1"},
  });
}

TEST(RotarySpecCheck, every_field_of_yarn_is_named) {
  const auto bad = [](auto change) { return changed(yarn(), change); };
  RotarySpec flat = with(yarn());
  flat.base = 1;
  expect_messages({
      {flat, "base is 1, wanted more than 1 for YaRN scaling"},
      {bad([](YarnScaling& s) { s.factor = 0; }), "scaling.factor is 0, wanted a finite number above 0"},
      {bad([](YarnScaling& s) { s.original_length = 0; }), "scaling.original_length is 0, wanted a number above 0"},
      {bad([](YarnScaling& s) { s.beta_slow = 0; }), "scaling.beta_slow is 0, wanted a finite number above 0"},
      {bad([](YarnScaling& s) { s.beta_fast = inf; }), "scaling.beta_fast is inf, wanted a finite number above 0"},
      {bad([](YarnScaling& s) { s.beta_fast = 1; }), "scaling.beta_fast is 1, wanted more than scaling.beta_slow, 1"},
      {bad([](YarnScaling& s) { s.ramp = static_cast<YarnRamp>(2); }), "scaling.ramp is 2, wanted truncated or exact"},
      {bad([](YarnScaling& s) { s.attention_factor = 0; }), "scaling.attention_factor is 0, wanted 2^-64 to 2^64"},
      {bad([](YarnScaling& s) { s.attention_factor = nan; }), "scaling.attention_factor is nan, wanted 2^-64 to 2^64"},
      {bad([](YarnScaling& s) { s.mscale = -1; }), "scaling.mscale is -1, wanted a finite number, 0 or above"},
      {bad([](YarnScaling& s) { s.mscale_all_dim = inf; }), "scaling.mscale_all_dim is inf, wanted a finite number, 0 or above"},
      {bad([](YarnScaling& s) { s.softmax = static_cast<YarnSoftmax>(9); }),
       "scaling.softmax is 9, wanted mscale_all_dim_squared or unchanged"},
  });
}

TEST(RotarySpecCheck, every_field_of_longrope_is_named) {
  const auto bad = [](auto change) { return changed(longrope(), change); };
  expect_messages({
      {bad([](LongRopeScaling& s) { s.short_factors.pop_back(); }), "scaling.short_factors has 3 entries, wanted 4, half the rotary width"},
      {bad([](LongRopeScaling& s) { s.long_factors.push_back(1); }), "scaling.long_factors has 5 entries, wanted 4, half the rotary width"},
      {bad([](LongRopeScaling& s) { s.long_factors.clear(); }), "scaling.long_factors has 0 entries, wanted 4, half the rotary width"},
      {bad([](LongRopeScaling& s) { s.long_factors[2] = 0; }), "scaling.long_factors[2] is 0, wanted a finite number above 0"},
      {bad([](LongRopeScaling& s) { s.short_factors[3] = nan; }), "scaling.short_factors[3] is nan, wanted a finite number above 0"},
      {bad([](LongRopeScaling& s) { s.original_length = -4; }), "scaling.original_length is -4, wanted a number above 0"},
      {bad([](LongRopeScaling& s) { s.original_length = 1; }), "scaling.original_length is 1, wanted more than 1"},
      {bad([](LongRopeScaling& s) { s.factor = -1; }), "scaling.factor is -1, wanted a finite number above 0"},
      {bad([](LongRopeScaling& s) { s.attention_factor = inf; }), "scaling.attention_factor is inf, wanted 2^-64 to 2^64"},
      {bad([](LongRopeScaling& s) { s.choice = static_cast<LongRopeChoice>(3); }),
       "scaling.choice is 3, wanted short_factors, long_factors or by_length"},
      {bad([](LongRopeScaling& s) { s.length = 0; }), "scaling.length is 0, wanted a number above 0"},
  });
}

TEST(RotarySpecCheck, every_field_of_llama3_and_of_given_lists_is_named) {
  const auto llama3 = [](auto change) { return changed(Llama3Scaling{}, change); };
  expect_messages({
      {llama3([](Llama3Scaling& s) { s.factor = -8; }), "scaling.factor is -8, wanted a finite number above 0"},
      {llama3([](Llama3Scaling& s) { s.low_freq_factor = 0; }), "scaling.low_freq_factor is 0, wanted a finite number above 0"},
      {llama3([](Llama3Scaling& s) { s.high_freq_factor = nan; }), "scaling.high_freq_factor is nan, wanted a finite number above 0"},
      {llama3([](Llama3Scaling& s) { s.high_freq_factor = 0.5; }),
       "scaling.high_freq_factor is 0.5, wanted at least scaling.low_freq_factor, 1"},
      {llama3([](Llama3Scaling& s) { s.original_length = 0; }), "scaling.original_length is 0, wanted a number above 0"},
      {with(GivenFactors{{1, 1, 1}, 1}), "scaling.factors has 3 entries, wanted 4, half the rotary width"},
      {with(GivenFactors{{1, -1, 1, 1}, 1}), "scaling.factors[1] is -1, wanted a finite number above 0"},
      {with(GivenFactors{{1, 1, 1, 1}, 0x1p65}), "scaling.amplitude is 3.6893488147419103e+19, wanted 2^-64 to 2^64"},
      {with(GivenFrequencies{{1}, 1}), "scaling.frequencies has 1 entries, wanted 4, half the rotary width"},
      {with(GivenFrequencies{{1, 1, nan, 1}, 1}), "scaling.frequencies[2] is nan, wanted a finite number, less than 2^64 either way"},
      {with(GivenFrequencies{{1, 1, 1, -0x1p64}, 1}),
       "scaling.frequencies[3] is -1.8446744073709552e+19, wanted a finite number, less than 2^64 either way"},
      {with(GivenFrequencies{{1, 1, 1, 1}, -1}), "scaling.amplitude is -1, wanted 2^-64 to 2^64"},
  });
}

TEST(RotarySpecCheck, ends_of_every_range_are_accepted) {
  const std::vector<RotarySpec> good = {
      with(Unscaled{}),
      changed([](RotarySpec& s) { s.rotary_width = 2, s.rotary_offset = 6; }),
      changed([](RotarySpec& s) { s.head_dim = 7, s.rotary_width = 6, s.rotary_offset = 1; }),
      changed([](RotarySpec& s) { s.base = 0.5; }),
      with(LinearScaling{0.5}),
      with(NtkMixedScaling{4, 0.0}),
      with(DynamicNtkScaling{2, 1, 0}),
      with(yarn()),
      with(longrope()),
      changed(longrope(), [](LongRopeScaling& s) { s.original_length = 1, s.attention_factor = 0x1p-64; }),
      changed(longrope(), [](LongRopeScaling& s) { s.length = 0, s.choice = LongRopeChoice::long_factors; }),
      changed(Llama3Scaling{}, [](Llama3Scaling& s) { s.high_freq_factor = 1; }),
      with(ProportionalScaling{1, 0}),
      with(GivenFactors{{1e-3, 1, 1e30, 1}, 0x1p64}),
      with(GivenFrequencies{{0, -1, 1e-300, 0x1.fffffffffffffp63}, 1}),
  };
  for (std::size_t i = 0; i < good.size(); ++i) EXPECT_EQ(spec::check(good[i]).message(), "") << "spec " << i;
}

TEST(RotarySpecCheck, rotary_width_is_head_dim_unless_given) {
  RotarySpec spec = with(Unscaled{});
  EXPECT_EQ(spec::rotary_width(spec), 8);
  spec.rotary_width = 6;
  EXPECT_EQ(spec::rotary_width(spec), 6);
}

}  // namespace
}  // namespace phasor::test
