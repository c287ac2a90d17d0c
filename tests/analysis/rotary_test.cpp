// SPDX-License-Identifier: Apache-2.0
// What the analysis says of a rotary encoding agrees with what the encoding does.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "phasor/analysis.hpp"

namespace phasor::test {
namespace {

/// Half a unit in the last place of a float32 between 1/2 and 1: what the nearest float32 may err by.
constexpr double kFloat32Rounding = 0x1p-25;
/// A few roundings of double, for values of about one.
constexpr double kDoubleRounding = 0x1p-50;

const RotarySpec kLlama{.head_dim = 128, .base = 500000, .scaling = Llama3Scaling{}};
const RotarySpec kSmall{.head_dim = 4, .pairing = Pairing::interleaved};

std::vector<double> product(const Matrix& m, const std::vector<double>& x) {
  std::vector<double> y(static_cast<std::size_t>(m.rows));
  for (std::int64_t r = 0; r < m.rows; ++r) {
    for (std::int64_t c = 0; c < m.columns; ++c) {
      y[static_cast<std::size_t>(r)] += m.values[static_cast<std::size_t>(r * m.columns + c)] * x[static_cast<std::size_t>(c)];
    }
  }
  return y;
}

double element(const Matrix& m, std::int64_t r, std::int64_t c) { return m.values[static_cast<std::size_t>(r * m.columns + c)]; }

/// Every way in which a spec changes the matrix.
std::vector<RotarySpec> specs() {
  RotarySpec base{.head_dim = 12, .base = 100};
  std::vector<RotarySpec> all{base, base, base, base, base};
  all[1].pairing = Pairing::interleaved;
  all[2].pairing = Pairing::interleaved;
  all[2].output_pairing = Pairing::half;
  all[3].sense = Sense::clockwise;
  all[4].scaling = YarnScaling{.factor = 4, .original_length = 64};
  return all;
}

TEST(RotaryAnalysis, rotation_matrix_at_position_2_is_that_of_the_worked_example) {
  const auto m = rotation_matrix(*Rotary::make(kSmall), 2);
  ASSERT_TRUE(m.ok()) << m.status().message();
  const double c0 = std::cos(2.0);
  const double s0 = std::sin(2.0);
  const double c1 = std::cos(0.02);
  const double s1 = std::sin(0.02);
  const std::vector<double> wanted{c0, -s0, 0, 0, s0, c0, 0, 0, 0, 0, c1, -s1, 0, 0, s1, c1};
  ASSERT_EQ(m->values.size(), wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(m->values[i], wanted[i], kDoubleRounding) << i;
}

TEST(RotaryAnalysis, rotation_matrix_times_a_vector_is_what_apply_gives) {
  for (const RotarySpec& spec : specs()) {
    const auto rotary = Rotary::make(spec);
    ASSERT_TRUE(rotary.ok()) << rotary.status().message();
    std::vector<double> x(12);
    std::iota(x.begin(), x.end(), -5.5);
    const auto m = rotation_matrix(*rotary, 37);
    ASSERT_TRUE(m.ok()) << m.status().message();
    const std::vector<double> wanted = product(*m, x);
    ASSERT_TRUE(rotary->apply(view(x.data(), {1, 1, 1, 12}), positions_from(37)).ok());
    for (std::size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(x[i], wanted[i], 16 * kDoubleRounding) << i;
  }
}

TEST(RotaryAnalysis, relative_matrix_is_the_transposed_query_rotation_times_the_key_rotation) {
  for (const RotarySpec& spec : specs()) {
    const auto rotary = Rotary::make(spec);
    const auto q = rotation_matrix(*rotary, 41);
    const auto k = rotation_matrix(*rotary, 29);
    const auto relative = relative_matrix(*rotary, 41, 29);
    ASSERT_TRUE(q.ok() && k.ok() && relative.ok());
    for (std::int64_t r = 0; r < 12; ++r) {
      for (std::int64_t c = 0; c < 12; ++c) {
        double wanted = 0;
        for (std::int64_t i = 0; i < 12; ++i) wanted += element(*q, i, r) * element(*k, i, c);
        EXPECT_NEAR(element(*relative, r, c), wanted, 4 * kDoubleRounding) << r << ", " << c;
      }
    }
  }
}

TEST(RotaryAnalysis, matrices_have_no_negative_zero) {
  const auto m = relative_matrix(*Rotary::make(kSmall), 7, 7);
  ASSERT_TRUE(m.ok());
  for (const double value : m->values) EXPECT_FALSE(value == 0 && std::signbit(value));
}

TEST(RotaryAnalysis, relative_matrix_of_a_distance_beyond_64_bits_is_an_error) {
  const auto rotary = Rotary::make(kSmall);
  constexpr auto kMost = std::numeric_limits<std::int64_t>::max();
  constexpr auto kLeast = std::numeric_limits<std::int64_t>::min();
  EXPECT_TRUE(relative_matrix(*rotary, 0, kLeast).ok());
  EXPECT_TRUE(relative_matrix(*rotary, -1, kMost - 1).ok());
  EXPECT_FALSE(relative_matrix(*rotary, 1, kLeast).ok());
  const auto error = relative_matrix(*rotary, -1, kMost);
  ASSERT_FALSE(error.ok());
  EXPECT_EQ(error.status().message(),
            "relative_matrix: positions are -1 and 9223372036854775807, wanted a difference that fits in 64 bits");
}

TEST(RotaryAnalysis, matrices_wider_than_4096_are_an_error) {
  const auto rotary = Rotary::make({.head_dim = 4098});
  ASSERT_TRUE(rotary.ok()) << rotary.status().message();
  EXPECT_EQ(rotation_matrix(*rotary, 1).status().message(), "rotation_matrix: rotary_width is 4098, wanted at most 4096");
  EXPECT_EQ(relative_matrix(*rotary, 1, 2).status().message(), "relative_matrix: rotary_width is 4098, wanted at most 4096");
}

TEST(RotaryAnalysis, wavelength_is_a_full_turn_and_infinite_for_a_pair_that_rests) {
  const auto rotary = Rotary::make({.head_dim = 6, .scaling = GivenFrequencies{.frequencies = {1, -0.5, 0}}});
  ASSERT_TRUE(rotary.ok()) << rotary.status().message();
  const std::vector<double> lengths = wavelengths(*rotary);
  ASSERT_EQ(lengths.size(), 3U);
  EXPECT_DOUBLE_EQ(lengths[0], 6.283185307179586);
  EXPECT_DOUBLE_EQ(lengths[1], 12.566370614359172);
  EXPECT_EQ(lengths[2], std::numeric_limits<double>::infinity());
}

TEST(RotaryAnalysis, exact_angles_err_by_float32_rounding_at_every_position) {
  const auto rotary = Rotary::make(kLlama);
  for (const std::int64_t position :
       std::vector<std::int64_t>{1, 1000, 1000000, -1000000, 1LL << 40, std::numeric_limits<std::int64_t>::max()}) {
    const auto error = angle_error(*rotary, position);
    ASSERT_TRUE(error.ok()) << error.status().message();
    EXPECT_LE(error->exact, kFloat32Rounding) << position;
    EXPECT_GT(error->exact, 0) << position;
  }
}

TEST(RotaryAnalysis, float32_angles_err_by_what_the_product_loses) {
  // One pair of frequency 1/3: the error of the angle is known, and cos and sin change by at most that and by at least a half of it in one.
  const auto rotary = Rotary::make({.head_dim = 2, .scaling = GivenFrequencies{.frequencies = {1.0 / 3}}});
  const std::int64_t position = 10000001;
  const double angle = static_cast<float>(position) * static_cast<float>(1.0 / 3);
  const double off = std::abs(angle - static_cast<double>(position) * (1.0 / 3));
  const auto error = angle_error(*rotary, position);
  ASSERT_TRUE(error.ok());
  EXPECT_GT(off, 0.01);
  EXPECT_LE(error->float32, off);
  EXPECT_GE(error->float32, off / 2);
}

}  // namespace
}  // namespace phasor::test
