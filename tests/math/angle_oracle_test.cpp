// SPDX-License-Identifier: Apache-2.0
// cos and sin of float32 angles against MPFR: the nearest float32, always; and where PyTorch's were, the same as PyTorch's.
#include "math/angle.hpp"

#include <gtest/gtest.h>

#include "../recorded.hpp"
#include "exact_oracle.hpp"
#include "ops/rotary/rotary_call.hpp"
#include "plan/real.hpp"

namespace phasor::test {
namespace {

using AngleOracle = EveryTarget;

TEST_F(AngleOracle, a_radian_is_the_step_of_frequency_one) {
  const math::Step step = plan::step_of(plan::Real(1));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(math::kRadian.fraction[i], step.fraction[i]);
  EXPECT_EQ(math::kRadian.whole, step.whole);
}

/// Angles of every exponent, and those of float32 that come closest to multiples of a quarter turn.
std::vector<float> angles() {
  std::vector<float> list = {
      0.0F,           -0.0F,          0x1p-149F,       -0x1p-130F,      0x1.fffffep-13F,      0x1p-12F, 0x1p62F, -0x1.fffffep62F,
      0x1.921fb6p+0F, 0x1.921fb6p+1F, 0x1.6ac5b2p+38F, 0x1.5f76fcp+10F, 16367173.0F * 0x1p72F};
  Random random(99);
  for (int exponent = -40; exponent < 63; ++exponent) {
    for (int i = 0; i < 400; ++i) list.push_back(std::ldexp(random.number(), exponent - 2));
  }
  for (int quarter = 1; quarter < 2000; ++quarter) {
    const auto near = static_cast<float>(quarter * 1.5707963267948966);
    for (const float x : {std::nextafter(near, 0.0F), near, std::nextafter(near, 1e9F)}) list.push_back(x);
  }
  return list;
}

TEST_F(AngleOracle, cosines_and_sines_of_float32_angles_are_the_nearest) {
  const std::vector<float> list = angles();
  oracle::SinCosOracle truth;
  const oracle::MpfrReal one(1);
  for (const float x : list) {
    float cos = 0;
    float sin = 0;
    math::sincos_of_angle(x, cos, sin);
    if (!(std::fabs(x) < 0x1p63F)) {
      EXPECT_TRUE(std::isnan(cos) && std::isnan(sin));
      continue;
    }
    truth.at(one, static_cast<double>(x));
    ASSERT_EQ(cos, truth.cos_float()) << x;
    ASSERT_EQ(sin, truth.sin_float()) << x;
  }
}

TEST_F(AngleOracle, kernels_give_the_nearest_too) {
  const std::vector<float> list = angles();
  std::vector<double> where(list.begin(), list.end());
  const auto tokens = static_cast<std::int64_t>(list.size());
  RotarySpec spec;
  spec.head_dim = 38;
  spec.scaling = GivenFrequencies{std::vector<double>(19, 1.0), 1};
  spec.numerics = Numerics::hf;
  std::vector<float> cos(list.size() * 19);
  std::vector<float> sin(list.size() * 19);
  const Extents shape = {1, tokens, 1, 19};
  on_every_target([&] {
    ASSERT_TRUE(make_rotary(spec).cos_sin(positions(where.data(), tokens), view(cos.data(), shape), view(sin.data(), shape)).ok());
    for (std::size_t i = 0; i < list.size(); ++i) {
      float c = 0;
      float s = 0;
      math::sincos_of_angle(list[i], c, s);
      for (std::size_t pair : {std::size_t{0}, std::size_t{7}, std::size_t{18}}) {
        ASSERT_EQ(reference::same_bytes<std::uint32_t>(cos[i * 19 + pair]), reference::same_bytes<std::uint32_t>(c)) << list[i];
        ASSERT_EQ(reference::same_bytes<std::uint32_t>(sin[i * 19 + pair]), reference::same_bytes<std::uint32_t>(s)) << list[i];
      }
    }
  });
}

TEST_F(AngleOracle, where_pytorch_gave_the_nearest_value_ours_is_equal) {
  oracle::SinCosOracle truth;
  const oracle::MpfrReal one(1);
  int nearest = 0;
  int all = 0;
  for (const Record& record : read_records("hf_tables.txt")) {
    if (record.title[2] != "3f800000") continue;  // an attention factor other than 1 rounds once more
    const std::vector<float> frequencies = record.floats("frequencies");
    const std::vector<float> cos = record.floats("cos");
    const std::vector<float> sin = record.floats("sin");
    std::size_t at = 0;
    for (const std::int64_t position : record.integers("positions")) {
      for (const float frequency : frequencies) {
        const float angle = static_cast<float>(position) * frequency;
        float c = 0;
        float s = 0;
        math::sincos_of_angle(angle, c, s);
        truth.at(one, static_cast<double>(angle));
        EXPECT_TRUE(cos[at] != truth.cos_float() || c == cos[at]) << angle;
        EXPECT_TRUE(sin[at] != truth.sin_float() || s == sin[at]) << angle;
        nearest += (cos[at] == truth.cos_float() ? 1 : 0) + (sin[at] == truth.sin_float() ? 1 : 0);
        all += 2;
        ++at;
      }
    }
  }
  EXPECT_GT(all, 3000);
  EXPECT_GT(nearest * 100, all * 90) << nearest << " of " << all;
  RecordProperty("nearest", nearest);
  RecordProperty("all", all);
}

}  // namespace
}  // namespace phasor::test
