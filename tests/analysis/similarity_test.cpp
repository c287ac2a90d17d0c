// SPDX-License-Identifier: Apache-2.0
// Similarity of rows and of positions, near-orthogonality, smallest gaps and turns, against naive sums.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "phasor/analysis.hpp"
#include "tensor.hpp"

namespace phasor::test {
namespace {

constexpr double kRounding = 0x1p-50;  // of a sum of a few dozen terms of about one, in double

Rotary make(const RotarySpec& spec) {
  auto rotary = Rotary::make(spec);
  EXPECT_TRUE(rotary.ok()) << rotary.status().message();
  return *std::move(rotary);
}

template <class T>
std::vector<T> random_rows(std::int64_t count, std::uint64_t seed) {
  test::Random random(seed);
  std::vector<T> values;
  for (std::int64_t i = 0; i < count; ++i) values.push_back(reference::Element<T>::narrow(random.number()));
  return values;
}

template <class T>
long double naive(const std::vector<T>& a, std::size_t a_start, const std::vector<T>& b, std::size_t b_start, std::size_t width) {
  long double sum = 0;
  for (std::size_t i = 0; i < width; ++i) {
    sum += static_cast<long double>(reference::Element<T>::widen(a[a_start + i])) * reference::Element<T>::widen(b[b_start + i]);
  }
  return sum;
}

/// Rows of 7 channels, those of `a` 11 apart and those of `b` backwards.
template <class T>
void check_against_naive() {
  const auto a = random_rows<T>(5 * 11, 1);
  const auto b = random_rows<T>(3 * 7, 2);
  const ConstTensorView a_view = view(a.data(), {1, 5, 1, 7}, {0, 11, 0, 1});
  const ConstTensorView b_view = view(b.data() + 14, {1, 3, 1, 7}, {0, -7, 0, 1});
  const auto inner = similarity(a_view, b_view, Similarity::inner_product);
  const auto cosine = similarity(a_view, b_view);
  ASSERT_TRUE(inner.ok()) << inner.status().message();
  ASSERT_TRUE(cosine.ok());
  ASSERT_EQ(inner->rows, 5);
  ASSERT_EQ(inner->columns, 3);
  for (std::size_t i = 0; i < 5; ++i) {
    for (std::size_t j = 0; j < 3; ++j) {
      const std::size_t b_start = 14 - 7 * j;
      const long double product = naive(a, 11 * i, b, b_start, 7);
      const long double norms = std::sqrt(naive(a, 11 * i, a, 11 * i, 7) * naive(b, b_start, b, b_start, 7));
      EXPECT_NEAR(inner->values[3 * i + j], static_cast<double>(product), static_cast<double>(norms) * kRounding);
      EXPECT_NEAR(cosine->values[3 * i + j], static_cast<double>(product / norms), kRounding);
    }
  }
}

TEST(Similarity, of_rows_is_the_naive_sum_in_every_dtype_and_for_any_strides) {
  check_against_naive<float>();
  check_against_naive<double>();
  check_against_naive<Float16>();
  check_against_naive<BFloat16>();
}

TEST(Similarity, cosine_is_1_with_itself_at_any_size_and_nan_with_zeros) {
  const std::vector<double> rows{3e300, 4e300, 3e-300, -4e-300, 0, 0};
  const ConstTensorView v = view(rows.data(), {1, 3, 1, 2});
  const auto m = similarity(v, v);
  ASSERT_TRUE(m.ok());
  EXPECT_NEAR(m->values[0], 1, kRounding);
  EXPECT_NEAR(m->values[1], -0.28, kRounding);
  EXPECT_NEAR(m->values[4], 1, kRounding);
  for (const std::size_t i : {2, 5, 6, 7, 8}) EXPECT_TRUE(std::isnan(m->values[i])) << i;
}

TEST(Similarity, of_a_rotary_spec_is_that_of_the_rows_of_its_sinusoid) {
  const Rotary rotary = make({.head_dim = 34, .scaling = YarnScaling{.factor = 4, .original_length = 512}});
  const std::vector<std::int64_t> at{0, 1, 5, -7, 123456789, 5};
  const Extents shape{1, 6, 1, 17};
  std::vector<double> rows(6 * 34);
  const TensorView cos = view(rows.data(), shape, {0, 34, 0, 1});
  const TensorView sin = view(rows.data() + 17, shape, {0, 34, 0, 1});
  ASSERT_TRUE(rotary.cos_sin(positions(at.data(), 6), cos, sin).ok());
  const ConstTensorView v = view(rows.data(), {1, 6, 1, 34});
  for (const Similarity kind : {Similarity::cosine, Similarity::inner_product}) {
    const auto by_distance = similarity(rotary, at, kind);
    const auto of_rows = similarity(v, v, kind);
    ASSERT_TRUE(by_distance.ok()) << by_distance.status().message();
    for (std::size_t i = 0; i < 36; ++i) EXPECT_NEAR(by_distance->values[i], of_rows->values[i], 32 * kRounding) << i;
  }
}

TEST(Similarity, of_positions_refuses_what_has_no_distance) {
  const Rotary rotary = make({.head_dim = 8});
  const std::vector<std::int64_t> ends{std::numeric_limits<std::int64_t>::max(), std::numeric_limits<std::int64_t>::min()};
  EXPECT_EQ(similarity(rotary, ends).status().message(),
            "similarity: positions are -9223372036854775808 and 9223372036854775807, wanted a difference that fits in 64 bits");
  const std::vector<std::int64_t> widest{std::numeric_limits<std::int64_t>::min(), 0};
  EXPECT_EQ(similarity(rotary, widest, Similarity::inner_product)->values[1], decay(rotary, {widest.data(), 1})->front());
  EXPECT_EQ(similarity(rotary, std::vector<std::int64_t>{}).status().message(), "similarity: there are 0 positions, wanted 1 to 4096");
  EXPECT_FALSE(similarity(rotary, std::vector<std::int64_t>(4097)).ok());
  RotarySpec per_channel{.head_dim = 8, .pairing = Pairing::interleaved};
  per_channel.lanes = Lanes::per_channel_frequencies;
  EXPECT_EQ(similarity(make(per_channel), widest).status().kind(), ErrorKind::unsupported);
  EXPECT_EQ(smallest_gap(make(per_channel), 9).status().kind(), ErrorKind::unsupported);
}

TEST(Similarity, of_rows_names_what_does_not_fit) {
  const std::vector<float> x(64);
  const auto message = [&](const Extents& a, const Extents& b) {
    return similarity(view(x.data(), a), view(x.data(), b)).status().message();
  };
  EXPECT_EQ(message({2, 1, 1, 8}, {1, 1, 1, 8}), "similarity: batch of a: 2, wanted 1");
  EXPECT_EQ(message({1, 1, 1, 8}, {1, 1, 3, 8}), "similarity: heads of b: 3, wanted 1");
  EXPECT_EQ(message({1, 0, 1, 8}, {1, 1, 1, 8}), "similarity: rows of a are 0, wanted 1 to 4096");
  EXPECT_EQ(message({1, 1, 1, 8}, {1, 1, 1, 9}), "similarity: b has head_dim 9, wanted that of a, 8");
  EXPECT_EQ(message({1, 2, 1, 0}, {1, 1, 1, 9}), "similarity: a has head_dim 0, wanted at least 1");
  const ConstTensorView nowhere(nullptr, DType::f32, {1, 2, 1, 4}, {8, 4, 4, 1});
  EXPECT_FALSE(similarity(nowhere, nowhere).ok());
}

TEST(Orthogonality, of_random_directions_has_a_mean_square_of_one_over_the_width) {
  const auto a = random_rows<float>(64 * 101, 3);
  const auto b = random_rows<float>(65 * 101, 4);
  const auto o = orthogonality(view(a.data(), {1, 64, 1, 101}), view(b.data(), {1, 65, 1, 101}));
  ASSERT_TRUE(o.ok());
  EXPECT_EQ(o->cosines, 64 * 65);
  EXPECT_NEAR(o->mean_square, 1.0 / 101, 0.1 / 101);  // 4160 squares: their mean scatters by 2 % of itself
  EXPECT_NEAR(o->mean, 0, 0.01);
  EXPECT_LT(o->largest, 0.5);
}

TEST(Orthogonality, counts_by_hand_and_leaves_zeros_out) {
  const std::vector<double> a{1, 0, 0, 0};
  const std::vector<double> b{0, 2, -3, 0, 3, 4};
  const auto o = orthogonality(view(a.data(), {1, 2, 1, 2}), view(b.data(), {1, 3, 1, 2}));
  ASSERT_TRUE(o.ok());
  EXPECT_EQ(o->cosines, 3);
  EXPECT_NEAR(o->mean, (0 - 1 + 0.6) / 3, kRounding);
  EXPECT_NEAR(o->mean_square, (0 + 1 + 0.36) / 3, kRounding);
  EXPECT_EQ(o->largest, 1);
  const ConstTensorView zeros = view(a.data() + 2, {1, 1, 1, 2});
  EXPECT_EQ(orthogonality(zeros, zeros).status().message(),
            "orthogonality: every cosine is of a row of zeros or NaN, wanted rows with a direction");
}

TEST(SmallestGap, of_the_seeds_sinusoids_is_known) {  // by mpmath at 200 bits
  const auto wide = smallest_gap(make({.head_dim = 128}), 600);
  ASSERT_TRUE(wide.ok());
  EXPECT_NEAR(wide->gap, 1.9525963198942967, kRounding);
  EXPECT_EQ(wide->second, 1);
  const auto narrow = smallest_gap(make({.head_dim = 4}), 3000);
  EXPECT_NEAR(narrow->gap, 0.044406417783428471, kRounding);
  EXPECT_EQ(narrow->second, 1885);
}

TEST(SmallestGap, of_rows_is_that_of_their_spec) {
  const Rotary rotary = make({.head_dim = 6, .base = 30});
  std::vector<double> rows(200 * 6);
  const TensorView cos = view(rows.data(), {1, 200, 1, 3}, {0, 6, 0, 1});
  const TensorView sin = view(rows.data() + 3, {1, 200, 1, 3}, {0, 6, 0, 1});
  ASSERT_TRUE(rotary.cos_sin(positions_from(0), cos, sin).ok());
  const auto of_rows = smallest_gap(view(rows.data(), {1, 200, 1, 6}));
  const auto by_distance = smallest_gap(rotary, 200);
  ASSERT_TRUE(of_rows.ok() && by_distance.ok());
  EXPECT_EQ(of_rows->second - of_rows->first, by_distance->second);
  EXPECT_NEAR(of_rows->gap, by_distance->gap, kRounding);
}

TEST(SmallestGap, is_0_where_positions_are_alike) {
  const auto still = smallest_gap(make({.head_dim = 4, .scaling = GivenFrequencies{.frequencies = {0, 0}}}), 5);
  EXPECT_EQ(still->gap, 0);
  EXPECT_EQ(still->second, 1);
  RotarySpec turns{.head_dim = 2, .scaling = GivenFrequencies{.frequencies = {0.25}}};
  turns.unit = FrequencyUnit::turns;
  EXPECT_EQ(smallest_gap(make(turns), 5)->gap, 0);
  EXPECT_EQ(smallest_gap(make(turns), 5)->second, 4);
  EXPECT_NEAR(smallest_gap(make(turns), 4)->gap, std::sqrt(2.0), kRounding);
  const std::vector<float> rows{1, 2, 3, 4, 1, 2};
  const auto same = smallest_gap(view(rows.data(), {1, 3, 1, 2}));
  EXPECT_EQ(same->gap, 0);
  EXPECT_EQ(same->first, 0);
  EXPECT_EQ(same->second, 2);
}

TEST(SmallestGap, refuses_a_single_position_and_numbers_without_distance) {
  EXPECT_EQ(smallest_gap(make({.head_dim = 4}), 1).status().message(), "smallest_gap: length is 1, wanted 2 to 16777216");
  const std::vector<float> rows{1, std::numeric_limits<float>::quiet_NaN()};
  EXPECT_EQ(smallest_gap(view(rows.data(), {1, 1, 1, 2})).status().message(), "smallest_gap: rows of rows are 1, wanted 2 to 8192");
  EXPECT_EQ(smallest_gap(view(rows.data(), {1, 2, 1, 1})).status().message(),
            "smallest_gap: rows 0 and 1 have no distance, wanted finite numbers");
}

TEST(PairTurns, tell_which_pairs_never_come_round) {
  const auto turns = pair_turns(make({.head_dim = 128}), 4096);
  ASSERT_TRUE(turns.ok());
  ASSERT_EQ(turns->size(), 64U);
  std::int64_t slow = 0;
  for (std::size_t i = 0; i < 64; ++i) {
    const double w = std::pow(10000.0, -static_cast<double>(i) / 64);
    const double wavelength = 2 * std::acos(-1.0) / w;
    EXPECT_NEAR((*turns)[i].frequency, w, w * kRounding);
    EXPECT_NEAR((*turns)[i].wavelength, wavelength, wavelength * kRounding);
    EXPECT_NEAR((*turns)[i].turns, 4096 / wavelength, 4096 / wavelength * kRounding);
    slow += (*turns)[i].turns < 1 ? 1 : 0;
  }
  EXPECT_EQ(slow, 18);  // from pair 46 on: 64 log(4096 / 2 pi) / log(10000) = 45.03
  EXPECT_EQ(pair_turns(make({.head_dim = 4, .scaling = ProportionalScaling{1, 0.5}}), 10)->back().turns, 0);
  EXPECT_EQ(pair_turns(make({.head_dim = 4}), 0).status().message(), "pair_turns: length is 0, wanted at least 1");
}

}  // namespace
}  // namespace phasor::test
