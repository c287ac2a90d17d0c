// SPDX-License-Identifier: Apache-2.0
// The error of each numerics profile over positions 1 to 10^7: known figures, and where a peer has no such scaling.
#include <gtest/gtest.h>

#include <span>

#include "phasor/analysis.hpp"

namespace phasor::test {
namespace {

constexpr std::int64_t decades[] = {1, 10, 100, 1000, 10000, 100000, 131071, 1000000, 10000000};

RotarySpec spec_of(double base, Scaling scaling = Unscaled{}) {
  RotarySpec spec;
  spec.head_dim = 128;
  spec.base = base;
  spec.scaling = std::move(scaling);
  return spec;
}

TEST(ProfileErrors, exact_numerics_err_by_half_an_ulp_at_every_position) {
  const auto errors = profile_errors(spec_of(10000), decades);
  ASSERT_TRUE(errors.ok());
  ASSERT_EQ(errors->size(), std::size(decades));
  for (std::size_t i = 0; i < errors->size(); ++i) {
    EXPECT_EQ((*errors)[i].position, decades[i]);
    EXPECT_LE((*errors)[i].exact, 0x1p-25 + 0x1p-50);
  }
}

struct Known {
  std::int64_t position;
  double hf;
  double ggml;
};

/// The error table of base 10000 over 128 channels. The bits of a profile are defined, so the figures are too.
TEST(ProfileErrors, each_profile_has_its_error_table_from_1_to_ten_million) {
  constexpr Known known[] = {{1, 4.57e-8, 9.47e-8},      {10, 2.00e-7, 1.23e-6},      {100, 3.15e-6, 9.57e-6},
                             {1000, 2.88e-5, 1.05e-4},   {10000, 3.17e-4, 1.47e-3},   {100000, 5.16e-3, 9.80e-3},
                             {131071, 4.15e-3, 1.20e-2}, {1000000, 5.16e-2, 7.62e-2}, {10000000, 0.639, 1.30}};
  for (const Known& k : known) {
    const auto errors = profile_errors(spec_of(10000), std::span(&k.position, 1));
    ASSERT_TRUE(errors.ok());
    const ProfileError& e = errors->front();
    EXPECT_NEAR(e.hf.value(), k.hf, 0.005 * k.hf) << k.position;
    EXPECT_NEAR(e.vllm.value(), k.hf, 0.005 * k.hf) << k.position;
    EXPECT_NEAR(e.ggml.value(), k.ggml, 0.005 * k.ggml) << k.position;
  }
}

/// What others have measured of the peers (angles, 128 channels, bases of 10^4 to 10^6).
TEST(ProfileErrors, the_figures_are_those_that_are_known_of_the_peers) {
  const std::int64_t far[] = {131071, 1000000, 10000000};
  for (const double base : {1e4, 5e5, 1e6}) {
    const auto errors = profile_errors(spec_of(base), far);
    ASSERT_TRUE(errors.ok());
    const auto within = [&](std::size_t i, double least, double most) {
      EXPECT_GE((*errors)[i].hf.value(), least) << base;
      EXPECT_LE((*errors)[i].hf.value(), most) << base;
    };
    within(0, 3.5e-3, 5e-3);
    within(1, 3e-2, 7e-2);
    within(2, 0.3, 0.8);
    EXPECT_LE((*errors)[0].ggml.value(), 1.3e-2) << base;
    EXPECT_LE((*errors)[1].ggml.value(), 0.1) << base;
    EXPECT_LE((*errors)[2].ggml.value(), 1.6) << base;
  }
}

TEST(ProfileErrors, hf_and_vllm_are_alike_but_for_linear_scaling) {
  const auto plain = profile_errors(spec_of(500000), decades);
  const auto linear = profile_errors(spec_of(500000, LinearScaling{2.7}), decades);
  ASSERT_TRUE(plain.ok() && linear.ok());
  bool apart = false;
  for (std::size_t i = 0; i < plain->size(); ++i) {
    EXPECT_EQ((*plain)[i].hf, (*plain)[i].vllm);
    apart |= (*linear)[i].hf != (*linear)[i].vllm;
  }
  EXPECT_TRUE(apart);
}

TEST(ProfileErrors, a_peer_without_the_scaling_has_no_figure) {
  const auto errors = profile_errors(spec_of(10000, NtkMixedScaling{4, std::nullopt}), decades);
  ASSERT_TRUE(errors.ok());
  EXPECT_FALSE(errors->front().hf.has_value());
  EXPECT_TRUE(errors->front().vllm.has_value());
  EXPECT_FALSE(errors->front().ggml.has_value());
}

TEST(ProfileErrors, a_spec_that_does_not_fit_is_an_error) {
  EXPECT_EQ(profile_errors(spec_of(-1), decades).status().message(), "RotarySpec: base is -1, wanted a finite number above 0");
}

}  // namespace
}  // namespace phasor::test
