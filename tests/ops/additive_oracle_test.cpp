// SPDX-License-Identifier: Apache-2.0
// Every value of every sinusoidal variant against MPFR: float32 and float64 are the nearest, at any position, on every target.
#include "additive_reference.hpp"
#include "math/exact_oracle.hpp"

namespace phasor::test {
namespace {

using oracle::MpfrReal;

class SinusoidalOracle : public EveryTarget {};

/// The truth at one place, rounded to T.
template <class T, class Position>
T truth_at(const SinusoidalSpec& spec, std::int64_t channel, const Position* by_axis) {
  const ChannelRole role = role_of(spec, channel);
  const Position position = by_axis[role.axis];
  if (role.kind == ChannelRole::Kind::zero || (spec.zero_position && position == static_cast<Position>(*spec.zero_position))) return 0;
  oracle::SinCosOracle oracle;
  oracle.at(frequency_of<MpfrReal>(spec, role, MpfrReal::pi()), position, spec.amplitude);
  if constexpr (std::is_same_v<T, float>) return role.kind == ChannelRole::Kind::sin ? oracle.sin_float() : oracle.cos_float();
  const double value = role.kind == ChannelRole::Kind::sin ? oracle.sin_double() : oracle.cos_double();
  // Whole half turns: what is left is the rounding of MPFR's pi, and the truth is 0.
  return std::fabs(value) < 0x1p-400 ? 0 : value;
}

/// out (1, T, 1, D) at positions (axes, 1, T).
template <class T, class Position>
void expect_nearest(const SinusoidalSpec& spec, const std::vector<Position>& list) {
  const Sinusoidal sinusoidal = *Sinusoidal::make(spec);
  const auto tokens = static_cast<std::int64_t>(list.size()) / sinusoidal.axes();
  Tensor<T> out({1, tokens, 1, spec.width}, 3);
  ASSERT_TRUE(sinusoidal.fill(out.view(), positions(list.data(), sinusoidal.axes(), 1, tokens)).ok());
  for (std::int64_t t = 0; t < tokens; ++t) {
    std::vector<Position> by_axis;
    for (std::int64_t a = 0; a < sinusoidal.axes(); ++a) by_axis.push_back(list[static_cast<std::size_t>(a * tokens + t)]);
    for (std::int64_t c = 0; c < spec.width; ++c) {
      EXPECT_EQ(out.at(0, t, 0, c), (truth_at<T, Position>(spec, c, by_axis.data()))) << "token " << t << " channel " << c;
    }
  }
}

/// A run of consecutive positions, then far and negative ones, other ones on every axis.
std::vector<std::int64_t> far_positions(std::int64_t axes) {
  const std::int64_t one = 1;
  const std::int64_t far[] = {-3, 100'003, 10'000'019, (one << 40) + 3, -(one << 50) - 1, (one << 62) + 12345};
  std::vector<std::int64_t> list;
  for (std::int64_t a = 0; a < axes; ++a) {
    for (std::int64_t p = 0; p < 37; ++p) list.push_back(p + 5 * a);
    for (const std::int64_t p : far) list.push_back(p - 7 * a);
  }
  return list;
}

std::vector<double> fractional_positions(std::int64_t axes) {
  std::vector<double> list;
  for (std::int64_t a = 0; a < axes; ++a) {
    for (const double p : {0.0, 1.0, 0.5, -0.3, 999.25, 0.1 + 0.01 * static_cast<double>(a), 1e9 + 1.0 / 3}) list.push_back(p);
  }
  return list;
}

TEST_F(SinusoidalOracle, every_float32_of_every_variant_is_the_nearest_to_the_truth) {
  on_every_target([] {
    for (const NamedSpec& variant : variants()) {
      SCOPED_TRACE(variant.name);
      const std::int64_t axes = Sinusoidal::make(variant.spec)->axes();
      expect_nearest<float>(variant.spec, far_positions(axes));
      expect_nearest<float>(variant.spec, fractional_positions(axes));
    }
  });
}

TEST_F(SinusoidalOracle, every_float64_of_every_variant_is_the_nearest_to_the_truth) {
  for (const NamedSpec& variant : variants()) {
    SCOPED_TRACE(variant.name);
    const std::int64_t axes = Sinusoidal::make(variant.spec)->axes();
    expect_nearest<double>(variant.spec, far_positions(axes));
    expect_nearest<double>(variant.spec, fractional_positions(axes));
  }
}

TEST_F(SinusoidalOracle, more_pairs_than_a_block_holds_are_the_nearest_too) {
  on_every_target([] {
    for (const SinusoidOrder order : {SinusoidOrder::interleaved, SinusoidOrder::cos_sin}) {
      expect_nearest<float>(SinusoidalSpec{.width = 4103, .order = order, .odd = OddChannel::unpaired},
                            std::vector<std::int64_t>{4, 5, 6, 90});
    }
  });
}

TEST_F(SinusoidalOracle, frequencies_are_the_nearest_float64_of_the_formulas) {
  for (const NamedSpec& variant : variants()) {
    SCOPED_TRACE(variant.name);
    const Sinusoidal sinusoidal = *Sinusoidal::make(variant.spec);
    std::vector<double> wanted;
    for (std::int64_t c = 0; c < variant.spec.width; ++c) {
      const ChannelRole role = role_of(variant.spec, c);
      const bool first =
          variant.spec.order == SinusoidOrder::cos_sin ? role.kind == ChannelRole::Kind::cos : role.kind == ChannelRole::Kind::sin;
      if (first) wanted.push_back(frequency_of<MpfrReal>(variant.spec, role, MpfrReal::pi()).nearest_double());
    }
    EXPECT_EQ(sinusoidal.frequencies(), wanted);
  }
}

}  // namespace
}  // namespace phasor::test
