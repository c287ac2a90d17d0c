// SPDX-License-Identifier: Apache-2.0
// The error of each numerics profile over positions 1 to 10^7: known figures, and where a peer has no such scaling.
#include <gtest/gtest.h>

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

/// Largest over all positions of a stretch, so that a figure does not hang on one lucky position.
ProfileError largest_around(const RotarySpec& spec, std::int64_t position) {
  std::vector<std::int64_t> list;
  for (std::int64_t p = position - 255; p <= position; ++p) list.push_back(p);
  const auto errors = profile_errors(spec, list);
  EXPECT_TRUE(errors.ok()) << errors.status().message();
  ProfileError most = {position, 0, 0.0, 0.0, 0.0};
  for (const ProfileError& e : *errors) {
    most.exact = std::max(most.exact, e.exact);
    most.hf = std::max(*most.hf, e.hf.value());
    most.vllm = std::max(*most.vllm, e.vllm.value());
    most.ggml = std::max(*most.ggml, e.ggml.value());
  }
  return most;
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

/// Published figures: Hugging Face 4e-3 to 5e-3 at 131k, 3e-2 to 7e-2 at 1M, 0.4 to 0.8 at 10M; ggml up to 1.3e-2, 0.1 and 1.6 (an angle
/// that far off shows in cos and sin as at most 2 sin(0.8)).
TEST(ProfileErrors, peers_err_by_the_figures_that_are_known_of_them) {
  const ProfileError at_131k = largest_around(spec_of(10000), 131071);
  EXPECT_GT(*at_131k.hf, 3e-3);
  EXPECT_LT(*at_131k.hf, 6e-3);
  EXPECT_GT(*at_131k.ggml, 3e-3);
  EXPECT_LT(*at_131k.ggml, 1.4e-2);
  const ProfileError at_1m = largest_around(spec_of(10000), 1000000);
  EXPECT_GT(*at_1m.hf, 3e-2);
  EXPECT_LT(*at_1m.hf, 7e-2);
  EXPECT_GT(*at_1m.ggml, 3e-2);
  EXPECT_LT(*at_1m.ggml, 0.11);
  const ProfileError at_10m = largest_around(spec_of(10000), 10000000);
  EXPECT_GT(*at_10m.hf, 0.35);
  EXPECT_LT(*at_10m.hf, 0.8);
  EXPECT_LT(*at_10m.ggml, 1.6);
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
