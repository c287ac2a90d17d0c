// SPDX-License-Identifier: Apache-2.0
// Numerics profiles from spec to tensor: every dtype and pairing against formulas written naively, on every target, whatever the layout.
#include "profile_reference.hpp"

namespace phasor::test {
namespace {

using Profile = EveryTarget;

constexpr Numerics profiles[] = {Numerics::hf, Numerics::hf_float32, Numerics::vllm, Numerics::ggml};
constexpr std::int64_t tokens = 7;
constexpr double fractional[tokens] = {0, 1, -3, 4095, 131071, 1000003, 0.375};
constexpr std::int64_t whole[tokens] = {0, 1, -3, 4095, 131071, 1000003, 9999999};

/// A width that fills no whole number of registers, in the middle of a head.
RotarySpec spec_with(Numerics numerics, Scaling scaling = Unscaled{}) {
  RotarySpec spec;
  spec.head_dim = 53;
  spec.rotary_width = 46;
  spec.rotary_offset = 3;
  spec.base = 500000;
  spec.scaling = std::move(scaling);
  spec.numerics = numerics;
  return spec;
}

naive::Case plain_case(Numerics numerics) {
  const RotarySpec spec = spec_with(numerics);
  if (numerics != Numerics::ggml) return {spec, naive::products(naive::inv_freq(500000, 46))};
  return {spec, naive::running(500000, 46, 1, std::vector<float>(23, 1.0F))};
}

template <class T>
void check_case(const naive::Case& c) {
  const Rotary rotary = make_rotary(c.spec);
  const auto check = [&](const Positions& where, auto position_of) {
    Tensor<T> x({2, tokens, 3, c.spec.head_dim}, 7);
    x.with_numbers(c.spec.rotary_offset, c.spec.rotary_width);
    Tensor<T> wanted = x;
    x.each_head([&](std::int64_t b, std::int64_t t, std::int64_t h) {
      std::vector<T> head = x.head(b, t, h);
      naive::rotate_head(c, static_cast<float>(position_of(t)), head);
      wanted.set_head(b, t, h, head);
    });
    const Status status = rotary.apply(x.view(), where);
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_TRUE(same_bits(x.memory, wanted.memory));
  };
  check(positions(whole, tokens), [](std::int64_t t) { return whole[t]; });
  check(positions(fractional, tokens), [](std::int64_t t) { return fractional[t]; });
}

TEST_F(Profile, every_dtype_and_pairing_is_what_the_peers_formula_gives) {
  on_every_target([] {
    for (const Numerics numerics : profiles) {
      for (const Pairing pairing : {Pairing::half, Pairing::interleaved}) {
        for (const Pairing output : {Pairing::half, Pairing::interleaved}) {
          SCOPED_TRACE(static_cast<int>(numerics));
          naive::Case c = plain_case(numerics);
          c.spec.pairing = pairing;
          c.spec.output_pairing = output;
          if (output != pairing) c.spec.sense = Sense::clockwise;
          for_each_dtype([&](auto tag) { check_case<typename decltype(tag)::type>(c); });
        }
      }
    }
  });
}

TEST_F(Profile, linear_scaling_divides_frequencies_positions_or_angles_as_the_peer_does) {
  const LinearScaling linear{2.7};
  std::vector<float> slower = naive::inv_freq(500000, 46);
  for (float& f : slower) f /= 2.7F;
  check_case<float>({spec_with(Numerics::hf, linear), naive::products(slower)});
  check_case<float>({spec_with(Numerics::vllm, linear), naive::products(naive::inv_freq(500000, 46), 2.7F)});
  check_case<float>({spec_with(Numerics::ggml, linear), naive::running(500000, 46, 1.0F / 2.7F, std::vector<float>(23, 1.0F))});
}

TEST_F(Profile, vllm_has_both_mixed_ntk_scalings) {
  std::vector<float> fixed = naive::inv_freq(500000.0 * 8, 46);
  for (float& f : fixed) f /= static_cast<float>(std::pow(8.0, 2.0 / 46));
  check_case<BFloat16>({spec_with(Numerics::vllm, NtkMixedScaling{8, std::nullopt}), naive::products(fixed)});
  std::vector<float> mixed = naive::inv_freq(500000, 46);
  const float a = static_cast<float>(std::log(8.0)) / static_cast<float>(std::pow(23.0, 0.625));
  for (std::size_t i = 0; i < mixed.size(); ++i) {
    const float share = a * naive::power(static_cast<float>(i + 1), 0.625F);
    mixed[i] /= static_cast<float>(std::exp(static_cast<double>(share)));
  }
  check_case<BFloat16>({spec_with(Numerics::vllm, NtkMixedScaling{8, 0.625}), naive::products(mixed)});
}

TEST_F(Profile, given_factors_and_frequencies_are_rounded_to_float32_and_so_is_the_amplitude) {
  std::vector<double> factors;
  std::vector<double> frequencies;
  std::vector<float> by_factor;
  std::vector<float> by_frequency;
  std::vector<float> divisors;
  for (int i = 0; i < 23; ++i) {
    factors.push_back(1 + 0.1 * i);
    frequencies.push_back((i % 2 == 0 ? 0.7 : -0.3) / (i + 1));
    divisors.push_back(static_cast<float>(factors.back()));
    by_factor.push_back(1.0F / (divisors.back() * naive::power(500000.0F, static_cast<float>(2 * i) / 46.0F)));
    by_frequency.push_back(static_cast<float>(frequencies.back()));
  }
  for (const Numerics numerics : {Numerics::hf, Numerics::vllm}) {
    check_case<Float16>({spec_with(numerics, GivenFactors{factors, 1.1}), naive::products(by_factor), 1.1F});
    check_case<double>({spec_with(numerics, GivenFrequencies{frequencies, 1.1}), naive::products(by_frequency), 1.1F});
  }
  check_case<Float16>({spec_with(Numerics::ggml, GivenFactors{factors, 1.1}), naive::running(500000, 46, 1, divisors), 1.1F});
  check_case<float>({spec_with(Numerics::ggml, GivenFrequencies{frequencies, 1.1}), naive::products(by_frequency), 1.1F});
}

TEST_F(Profile, pairs_that_never_turn_are_still_computed) {
  std::vector<float> some = naive::inv_freq(500000, 46);
  std::fill(some.begin() + 11, some.end(), 0.0F);
  std::vector<float> factors(23, 1.0F);
  std::fill(factors.begin() + 11, factors.end(), 1e30F);
  on_every_target([&] {
    check_case<BFloat16>({spec_with(Numerics::hf, ProportionalScaling{1, 0.5}), naive::products(some)});
    check_case<float>({spec_with(Numerics::ggml, ProportionalScaling{1, 0.5}), naive::running(500000, 46, 1, factors)});
    for (const Numerics numerics : profiles) {  // -0 + 0 is 0, and infinity times 0 is NaN: position 0 leaves neither alone
      RotarySpec spec;
      spec.head_dim = 8;
      spec.numerics = numerics;
      const Rotary rotary = make_rotary(spec);
      std::vector<float> x(8, -0.0F);
      x[5] = std::numeric_limits<float>::infinity();
      ASSERT_TRUE(rotary.apply(view(x.data(), {1, 1, 1, 8}), positions_from(0)).ok());
      EXPECT_FALSE(std::signbit(x[0]));
      EXPECT_TRUE(std::isnan(x[1]));
      EXPECT_EQ(x[5], std::numeric_limits<float>::infinity());
    }
  });
}

}  // namespace
}  // namespace phasor::test
