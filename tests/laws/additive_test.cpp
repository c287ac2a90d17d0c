// SPDX-License-Identifier: Apache-2.0
// Laws of sinusoidal encodings: the shift operator, the norm, inner products by distance, uniqueness, and adding against concatenating.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <numeric>

#include "ops/additive_reference.hpp"

namespace phasor::test {
namespace {

/// Each value of an encoding is off by half an ulp of its amplitude at most, and so is T's: products of two such, and a sum.
constexpr double kShiftError = 4 * 0x1p-53;

std::vector<double> encoding(const Sinusoidal& sinusoidal, const std::vector<std::int64_t>& at) {
  std::vector<double> row(static_cast<std::size_t>(sinusoidal.spec().width));
  const Positions p = positions(at.data(), static_cast<std::int64_t>(at.size()), 1, 1);
  EXPECT_TRUE(sinusoidal.fill(view(row.data(), {1, 1, 1, sinusoidal.spec().width}), p).ok());
  return row;
}

double dot(const std::vector<double>& a, const std::vector<double>& b) { return std::inner_product(a.begin(), a.end(), b.begin(), 0.0); }

/// Variants that have a shift operator: whole pairs, no position that is an exception.
std::vector<NamedSpec> shiftable() {
  std::vector<NamedSpec> list;
  for (NamedSpec& variant : variants()) {
    if (variant.spec.odd == OddChannel::zero && !variant.spec.zero_position) list.push_back(std::move(variant));
  }
  return list;
}

std::vector<std::int64_t> arbitrary_positions(std::int64_t axes) {
  std::vector<std::int64_t> list;
  for (std::int64_t a = 0; a < axes; ++a) list.push_back(*rc::gen::inRange<std::int64_t>(-1'000'000'000, 1'000'000'000));
  return list;
}

RC_GTEST_PROP(SinusoidalLaws, the_shift_operator_gives_the_encoding_a_distance_further_on, ()) {
  for (const NamedSpec& variant : shiftable()) {
    const Sinusoidal sinusoidal = *Sinusoidal::make(variant.spec);
    const std::vector<std::int64_t> at = arbitrary_positions(sinusoidal.axes());
    const std::vector<std::int64_t> by = arbitrary_positions(sinusoidal.axes());
    std::vector<std::int64_t> to = at;
    for (std::size_t a = 0; a < to.size(); ++a) to[a] += by[a];
    const ShiftOperator shift = *sinusoidal.shift(std::vector<double>(by.begin(), by.end()));
    std::vector<double> moved = encoding(sinusoidal, at);
    RC_ASSERT(apply_shift(shift, moved, moved).ok());
    const std::vector<double> wanted = encoding(sinusoidal, to);
    for (std::size_t c = 0; c < moved.size(); ++c) {
      RC_ASSERT(std::fabs(moved[c] - wanted[c]) <= kShiftError * std::fabs(variant.spec.amplitude));
    }
  }
}

RC_GTEST_PROP(SinusoidalLaws, the_matrix_of_a_shift_does_what_the_shift_does_and_is_orthogonal, ()) {
  for (const NamedSpec& variant : shiftable()) {
    const Sinusoidal sinusoidal = *Sinusoidal::make(variant.spec);
    const auto n = static_cast<std::size_t>(variant.spec.width);
    const ShiftOperator shift = *sinusoidal.shift(static_cast<double>(*rc::gen::inRange<std::int64_t>(-100000, 100000)));
    const std::vector<double> matrix = *matrix_of(shift);
    const std::vector<double> from = encoding(sinusoidal, arbitrary_positions(sinusoidal.axes()));
    std::vector<double> to(n);
    RC_ASSERT(apply_shift(shift, from, to).ok());
    for (std::size_t r = 0; r < n; ++r) {
      double product = 0;
      for (std::size_t c = 0; c < n; ++c) product += matrix[r * n + c] * from[c];
      RC_ASSERT(std::fabs(product - to[r]) <= kShiftError * std::fabs(variant.spec.amplitude));
      for (std::size_t s = 0; s < n; ++s) {
        double of_rows = 0;
        for (std::size_t c = 0; c < n; ++c) of_rows += matrix[r * n + c] * matrix[s * n + c];
        RC_ASSERT(std::fabs(of_rows - (r == s ? 1 : 0)) <= kShiftError);
      }
    }
  }
}

RC_GTEST_PROP(SinusoidalLaws, one_shift_after_another_is_the_shift_by_the_sum, ()) {
  const Sinusoidal sinusoidal = *Sinusoidal::make({.width = 38});
  const auto a = static_cast<double>(*rc::gen::inRange<std::int64_t>(-1'000'000, 1'000'000));
  const auto b = static_cast<double>(*rc::gen::inRange<std::int64_t>(-1'000'000, 1'000'000));
  std::vector<double> twice = encoding(sinusoidal, {5});
  std::vector<double> once = twice;
  RC_ASSERT(apply_shift(*sinusoidal.shift(a), twice, twice).ok() && apply_shift(*sinusoidal.shift(b), twice, twice).ok());
  RC_ASSERT(apply_shift(*sinusoidal.shift(a + b), once, once).ok());
  for (std::size_t c = 0; c < once.size(); ++c) RC_ASSERT(std::fabs(twice[c] - once[c]) <= 3 * kShiftError);
}

RC_GTEST_PROP(SinusoidalLaws, the_squared_norm_is_the_number_of_pairs_times_the_squared_amplitude, ()) {
  for (const NamedSpec& variant : shiftable()) {
    const Sinusoidal sinusoidal = *Sinusoidal::make(variant.spec);
    const std::vector<double> row = encoding(sinusoidal, arbitrary_positions(sinusoidal.axes()));
    const double wanted = static_cast<double>(sinusoidal.frequencies().size()) * variant.spec.amplitude * variant.spec.amplitude;
    RC_ASSERT(std::fabs(dot(row, row) - wanted) <= static_cast<double>(row.size()) * wanted * 0x1p-52);
  }
}

RC_GTEST_PROP(SinusoidalLaws, the_inner_product_of_two_positions_is_the_sum_of_the_cosines_of_their_distance, ()) {
  for (const NamedSpec& variant : shiftable()) {
    const Sinusoidal sinusoidal = *Sinusoidal::make(variant.spec);
    const std::vector<std::int64_t> a = arbitrary_positions(sinusoidal.axes());
    const std::vector<std::int64_t> b = arbitrary_positions(sinusoidal.axes());
    std::vector<std::int64_t> distance = b;
    for (std::size_t i = 0; i < distance.size(); ++i) distance[i] -= a[i];
    const std::vector<std::int64_t> origin(a.size(), 0);
    const double is = dot(encoding(sinusoidal, a), encoding(sinusoidal, b));
    const double wanted = dot(encoding(sinusoidal, origin), encoding(sinusoidal, distance));
    const double square = variant.spec.amplitude * variant.spec.amplitude;
    RC_ASSERT(std::fabs(is - wanted) <= 4 * static_cast<double>(variant.spec.width) * square * 0x1p-52);
  }
}

TEST(SinusoidalLaws, no_two_of_the_first_2000_positions_have_the_same_encoding) {
  for (const NamedSpec& variant : variants()) {
    if (variant.spec.width < 4 || std::holds_alternative<BandLadder>(variant.spec.ladder)) continue;  // bands repeat, and say so below
    if (variant.name == "MLX, full turns") continue;
    SCOPED_TRACE(variant.name);
    const Sinusoidal sinusoidal = *Sinusoidal::make(variant.spec);
    std::vector<float> rows(static_cast<std::size_t>(2000 * variant.spec.width));
    ASSERT_TRUE(sinusoidal.fill(view(rows.data(), {1, 2000, 1, variant.spec.width}), positions_from(0)).ok());
    std::vector<std::vector<float>> list;
    for (auto at = rows.begin(); at != rows.end(); at += variant.spec.width) list.emplace_back(at, at + variant.spec.width);
    std::sort(list.begin(), list.end());
    EXPECT_EQ(std::adjacent_find(list.begin(), list.end()), list.end());
  }
}

TEST(SinusoidalLaws, bands_of_whole_half_turns_repeat_after_two_positions) {
  const Sinusoidal sinusoidal = *Sinusoidal::make({.width = 8, .ladder = BandLadder{16, BandLadder::Spacing::ratio}});
  EXPECT_EQ(encoding(sinusoidal, {1}), encoding(sinusoidal, {3}));
  EXPECT_NE(encoding(sinusoidal, {0}), encoding(sinusoidal, {1}));
}

}  // namespace
}  // namespace phasor::test
