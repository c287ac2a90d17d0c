// SPDX-License-Identifier: Apache-2.0
// Properties of encodings as measured, against what the seeds say of them and what can be worked out by hand.
#include <cmath>
#include <vector>

#include "ops/additive_reference.hpp"
#include "phasor/additive_properties.hpp"

namespace phasor::test {
namespace {

EncodingProperties measured(const EncodingRows& encoding, std::int64_t length, std::int64_t trained = 0) {
  const Result<EncodingProperties> is = measure_encoding(encoding, length, trained);
  EXPECT_TRUE(is.ok()) << is.status().message();
  return is.ok() ? *is : EncodingProperties();
}

TEST(EncodingProperties, the_binary_digits_of_0_to_15_are_the_table_of_seed_000) {
  const int table[16][4] = {{0, 0, 0, 0}, {0, 0, 0, 1}, {0, 0, 1, 0}, {0, 0, 1, 1}, {0, 1, 0, 0}, {0, 1, 0, 1}, {0, 1, 1, 0}, {0, 1, 1, 1},
                            {1, 0, 0, 0}, {1, 0, 0, 1}, {1, 0, 1, 0}, {1, 0, 1, 1}, {1, 1, 0, 0}, {1, 1, 0, 1}, {1, 1, 1, 0}, {1, 1, 1, 1}};
  const EncodingRows binary = binary_rows(4);
  for (std::int64_t p = 0; p < 16; ++p) {
    std::vector<double> row(4);
    ASSERT_TRUE(binary.row(p, 16, row).ok());
    for (int d = 0; d < 4; ++d) EXPECT_EQ(row[static_cast<std::size_t>(d)], table[p][d]) << p;
  }
  std::vector<double> row(4);
  EXPECT_EQ(binary.row(16, 17, row).message(), "binary_rows: position is 16, wanted what 4 digits hold");
  EXPECT_FALSE(binary.row(-1, 17, row).ok());
}

TEST(EncodingProperties, binary_digits_alternate_twice_as_fast_from_place_to_place_and_end_with_their_digits) {
  const EncodingProperties is = measured(binary_rows(4), 16);
  EXPECT_EQ(is.alternations, (std::vector<double>{1.0 / 15, 3.0 / 15, 7.0 / 15, 1}));
  EXPECT_TRUE(is.unique && is.independent_of_length && is.bounded);
  EXPECT_FALSE(is.relative || is.defined_beyond);
  EXPECT_EQ(is.smallest_gap, 1);
}

TEST(EncodingProperties, the_raw_index_grows_without_bound) {
  const EncodingProperties is = measured(raw_index_rows(), 50);
  EXPECT_TRUE(is.unique && is.independent_of_length && is.defined_beyond);
  EXPECT_FALSE(is.bounded || is.relative);
  EXPECT_EQ(is.largest, 49);
  EXPECT_EQ(is.growth, (50.0 * (1 << 20) + 1) / 49);
  EXPECT_EQ(is.alternations, std::vector<double>{1.0 / 49});
}

TEST(EncodingProperties, the_scaled_index_depends_on_the_length_and_its_gaps_shrink_with_it) {
  const EncodingProperties is = measured(scaled_index_rows(), 5);
  EXPECT_TRUE(is.unique && is.bounded && is.defined_beyond);
  EXPECT_FALSE(is.independent_of_length || is.relative);
  EXPECT_EQ(is.smallest_gap, 0.25);
  EXPECT_NEAR(measured(scaled_index_rows(), 501).smallest_gap, 1.0 / 500, 1e-15);
}

TEST(EncodingProperties, every_sinusoid_of_whole_pairs_is_bounded_relative_and_defined_everywhere) {
  for (const NamedSpec& variant : variants()) {
    SCOPED_TRACE(variant.name);
    const EncodingProperties is = measured(sinusoidal_rows(*Sinusoidal::make(variant.spec)), 60);
    EXPECT_TRUE(is.independent_of_length && is.bounded && is.defined_beyond);
    const bool whole = (variant.spec.odd == OddChannel::zero || variant.spec.width % 2 == 0) && !variant.spec.zero_position;
    EXPECT_EQ(is.relative, whole);
    EXPECT_LE(is.largest, std::fabs(variant.spec.amplitude));
  }
}

TEST(EncodingProperties, the_sinusoid_of_the_paper_is_unique_and_its_channels_alternate_ever_more_slowly) {
  const Sinusoidal sinusoidal = *Sinusoidal::make({.width = 16});
  const EncodingProperties is = measured(sinusoidal_rows(sinusoidal), 1000);
  EXPECT_TRUE(is.unique);
  EXPECT_EQ(is.alternations.size(), 16U);
  // A sine crosses the middle of its range twice a turn; the range must hold a few turns for that to be its middle.
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(is.alternations[2 * i], sinusoidal.frequencies()[i] / std::acos(-1.0), 2.0 / 999) << i;
    EXPECT_GT(is.alternations[2 * i], is.alternations[2 * i + 2]) << i;
  }
  // Next neighbours are nearest: their distance follows from S(1).
  double gap = 0;
  for (const double w : sinusoidal.frequencies()) gap += 2 - 2 * std::cos(w);
  EXPECT_NEAR(is.smallest_gap, std::sqrt(gap), 1e-12);
}

TEST(EncodingProperties, fourier_bands_of_whole_numbers_are_not_unique) {
  const SinusoidalSpec spec = {.width = 8, .ladder = BandLadder{16, BandLadder::Spacing::ratio}};
  const EncodingProperties is = measured(sinusoidal_rows(*Sinusoidal::make(spec)), 20);
  EXPECT_FALSE(is.unique);
  EXPECT_EQ(is.smallest_gap, 0);
}

TEST(EncodingProperties, a_learned_table_is_not_defined_beyond_its_rows) {
  Tensor<float> table({1, 12, 1, 5}, 1);
  table.with_numbers(0, 5);
  const EncodingProperties is = measured(learned_rows(table.view()), 12);
  EXPECT_TRUE(is.unique && is.independent_of_length && is.bounded);
  EXPECT_FALSE(is.relative || is.defined_beyond);
  EXPECT_TRUE(measured(learned_rows(table.view()), 6).defined_beyond);
  EXPECT_FALSE(measured(learned_rows(table.view()), 6, 12).defined_beyond);
  EXPECT_EQ(measure_encoding(learned_rows(table.view()), 13).status().message(), "learned_rows: position is 12, the table has 12 rows");
}

TEST(EncodingProperties, input_that_does_not_fit_says_so) {
  EXPECT_EQ(measure_encoding(raw_index_rows(), 1).status().message(), "measure_encoding: length is 1, wanted 2 to 4096");
  EXPECT_EQ(measure_encoding(raw_index_rows(), 5, -1).status().message(), "measure_encoding: trained_length is -1, wanted 0 to 2^24");
  EXPECT_EQ(measure_encoding({}, 5).status().message(), "measure_encoding: encoding has no channels or no rows");
}

TEST(AddingConcatenating, with_shared_weights_are_the_same_and_without_cost_as_many_parameters_again) {
  Random random(8);
  const std::size_t width = 24;
  const std::size_t outputs = 7;
  std::vector<double> x(width);
  std::vector<double> weights(width * outputs);
  for (double& v : x) v = static_cast<double>(random.number());
  for (double& v : weights) v = static_cast<double>(random.number());
  std::vector<double> encoding(width);
  ASSERT_TRUE(Sinusoidal::make({.width = 24})->fill(view(encoding.data(), {1, 1, 1, 24}), positions_from(1234)).ok());
  const Result<AddingConcatenating> is = compare_adding(x, encoding, weights);
  ASSERT_TRUE(is.ok());
  ASSERT_EQ(is->added.size(), outputs);
  // Sums of 48 products below 20: a rounding each.
  for (std::size_t o = 0; o < outputs; ++o) EXPECT_NEAR(is->added[o], is->concatenated[o], 48 * 20 * 0x1p-52);
  EXPECT_EQ(is->extra_parameters, 24 * 7);
  EXPECT_EQ(compare_adding(x, weights, weights).status().message(),
            "compare_adding: x has 24 channels and the encoding 168, wanted the same");
  EXPECT_EQ(compare_adding(x, encoding, std::span(weights).first(25)).status().message(),
            "compare_adding: weights has 25 elements, wanted a multiple of 24");
}

}  // namespace
}  // namespace phasor::test
