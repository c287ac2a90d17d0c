// SPDX-License-Identifier: Apache-2.0
// The precision report against naive roundings of every step, and against the error table of the profiles.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <vector>

#include "phasor/analysis.hpp"
#include "reference.hpp"

namespace phasor::test {
namespace {

constexpr std::int64_t kWidth = 34;
constexpr double kBase = 10000;
constexpr std::int64_t kDistance = 7;
/// Sums of 34 products of float32 in double, and the truth in long double.
constexpr double kSumRounding = 0x1p-46;

float stored(float x, DType dtype) {
  using reference::Element;
  if (dtype == DType::f16) return Element<Float16>::widen(Element<Float16>::narrow(x));
  if (dtype == DType::bf16) return Element<BFloat16>::widen(Element<BFloat16>::narrow(x));
  return x;
}

struct CosSin {
  float cos;
  float sin;
};

/// exact: the nearest float32 of the true angle. Else the float32 angle of PyTorch's formula, every step rounded.
CosSin naive_table(Numerics numerics, std::int64_t pair, std::int64_t position) {
  long double angle = static_cast<long double>(position) * reference::frequency(kBase, kWidth, pair);
  if (numerics != Numerics::exact) {
    const float exponent = static_cast<float>(2 * pair) / static_cast<float>(kWidth);
    const float power = static_cast<float>(std::pow(static_cast<long double>(kBase), static_cast<long double>(exponent)));
    angle = static_cast<float>(position) * (1.0F / power);
  }
  return {static_cast<float>(std::cos(angle)), static_cast<float>(std::sin(angle))};
}

CosSin table_in(Numerics numerics, DType dtype, std::int64_t pair, std::int64_t position) {
  const CosSin t = naive_table(numerics, pair, position);
  if (numerics != Numerics::hf && numerics != Numerics::vllm) return t;
  return {stored(t.cos, dtype), stored(t.sin, dtype)};
}

double naive_score(Numerics numerics, DType dtype, std::int64_t position) {
  double sum = 0;
  for (std::int64_t pair = 0; pair < kWidth / 2; ++pair) {
    const CosSin q = table_in(numerics, dtype, pair, position + kDistance);
    const CosSin k = table_in(numerics, dtype, pair, position);
    sum += static_cast<double>(stored(q.cos - q.sin, dtype)) * stored(k.cos - k.sin, dtype);
    sum += static_cast<double>(stored(q.sin + q.cos, dtype)) * stored(k.sin + k.cos, dtype);
  }
  return sum / 2;
}

double true_score() {
  long double sum = 0;
  for (std::int64_t pair = 0; pair < kWidth / 2; ++pair) sum += std::cos(kDistance * reference::frequency(kBase, kWidth, pair));
  return static_cast<double>(sum);
}

double naive_cos_sin(Numerics numerics, DType dtype, std::int64_t position) {
  long double largest = 0;
  for (std::int64_t pair = 0; pair < kWidth / 2; ++pair) {
    const long double angle = static_cast<long double>(position) * reference::frequency(kBase, kWidth, pair);
    const CosSin t = table_in(numerics, dtype, pair, position);
    largest = std::max({largest, std::fabs(t.cos - std::cos(angle)), std::fabs(t.sin - std::sin(angle))});
  }
  return static_cast<double>(largest);
}

TEST(PrecisionReport, has_the_errors_of_naive_rounding_in_every_dtype) {
  const RotarySpec spec{.head_dim = 50, .rotary_width = kWidth, .rotary_offset = 3, .base = kBase};
  const std::vector<std::int64_t> positions{0, 1, 12, 999, 65536};
  const auto report = precision_report(spec, positions, kDistance);
  ASSERT_TRUE(report.ok()) << report.status().message();
  ASSERT_EQ(report->size(), positions.size() * 5 * 3);
  for (const PrecisionError& e : *report) {
    if (e.numerics == Numerics::ggml) continue;
    const auto what = [&] {
      return std::to_string(static_cast<int>(e.numerics)) + " " + name_of(e.dtype) + " " + std::to_string(e.position);
    };
    EXPECT_NEAR(e.cos_sin, naive_cos_sin(e.numerics, e.dtype, e.position), kSumRounding) << what();
    EXPECT_NEAR(e.score, std::abs(naive_score(e.numerics, e.dtype, e.position) - true_score()), kSumRounding) << what();
  }
}

TEST(PrecisionReport, of_float32_tables_is_the_error_table_of_the_profiles) {
  const RotarySpec spec{.head_dim = 128, .base = 500000, .pairing = Pairing::interleaved};
  const std::vector<std::int64_t> positions{1, 4095, 1000000};
  const auto report = precision_report(spec, positions, 1);
  const auto errors = profile_errors(spec, positions);
  ASSERT_TRUE(report.ok() && errors.ok());
  std::size_t compared = 0;
  for (const PrecisionError& e : *report) {
    const ProfileError& known = (*errors)[e.position == 1 ? 0 : e.position == 4095 ? 1 : 2];
    if (e.dtype != DType::f32) continue;
    const std::map<Numerics, double> by{{Numerics::exact, known.exact},
                                        {Numerics::hf, *known.hf},
                                        {Numerics::hf_float32, *known.hf},
                                        {Numerics::vllm, *known.vllm},
                                        {Numerics::ggml, *known.ggml}};
    EXPECT_EQ(e.cos_sin, by.at(e.numerics));
    ++compared;
  }
  EXPECT_EQ(compared, 15U);
}

TEST(PrecisionReport, shows_that_the_exact_score_does_not_get_worse_with_the_position) {
  const std::vector<std::int64_t> positions{100, 1000000, std::numeric_limits<std::int64_t>::max() - 1000};
  const auto report = precision_report({.head_dim = 128}, positions, 1000);
  ASSERT_TRUE(report.ok());
  for (const PrecisionError& e : *report) {
    // |q| |k| = 64, and each channel errs by the table's and the sum's half ulps, then by the storage's.
    const double storage = e.dtype == DType::f32 ? 0 : e.dtype == DType::f16 ? 0x1p-11 : 0x1p-8;
    if (e.numerics == Numerics::exact) {
      EXPECT_LT(e.score, 64 * 2 * (4 * 0x1p-24 + storage)) << e.position;
    }
    if (e.numerics == Numerics::hf && e.position == 1000000) {
      EXPECT_GT(e.score, 1e-3);
    }
  }
}

TEST(PrecisionReport, leaves_out_profiles_whose_peer_lacks_the_scaling) {
  const std::int64_t position[] = {5};
  const auto report = precision_report({.head_dim = 8, .scaling = NtkMixedScaling{2}}, position, 1);
  ASSERT_TRUE(report.ok());
  for (const PrecisionError& e : *report) EXPECT_NE(e.numerics, Numerics::ggml);
  EXPECT_EQ(report->front().numerics, Numerics::exact);
  EXPECT_EQ(report->size() % 3, 0U);
}

TEST(PrecisionReport, keeps_the_nan_of_an_angle_that_a_profile_does_not_have) {
  const std::int64_t position[] = {std::numeric_limits<std::int64_t>::max()};
  const auto report = precision_report({.head_dim = 4, .scaling = GivenFrequencies{.frequencies = {2, 1}}}, position, 0);
  ASSERT_TRUE(report.ok());
  bool met = false;
  for (const PrecisionError& e : *report) {
    if (e.numerics == Numerics::exact) {
      EXPECT_LT(e.score, 0.1);
    }
    if (e.numerics == Numerics::hf) met = met || (std::isnan(e.cos_sin) && std::isnan(e.score));
  }
  EXPECT_TRUE(met);
}

TEST(PrecisionReport, refuses_what_has_no_score_by_distance) {
  const std::int64_t last[] = {std::numeric_limits<std::int64_t>::max()};
  EXPECT_EQ(precision_report({.head_dim = 4}, last, 1).status().message(),
            "precision_report: position is 9223372036854775807 and distance 1, wanted a sum that fits in 64 bits");
  const std::int64_t first[] = {std::numeric_limits<std::int64_t>::min()};
  EXPECT_FALSE(precision_report({.head_dim = 4}, first, -1).ok());
  RotarySpec per_channel{.head_dim = 8, .pairing = Pairing::interleaved};
  per_channel.lanes = Lanes::per_channel_frequencies;
  EXPECT_EQ(precision_report(per_channel, last, 0).status().message(),
            "precision_report: lanes are per_channel_frequencies, so that scores depend on both positions, wanted lanes alike");
  EXPECT_EQ(precision_report({.head_dim = 4, .base = -1}, last, 0).status().kind(), ErrorKind::invalid);
}

}  // namespace
}  // namespace phasor::test
