// SPDX-License-Identifier: Apache-2.0
// Decay by distance: the true figures of 128 channels, the properties of S, weights of the softmax, and what cannot be asked.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "phasor/analysis.hpp"

namespace phasor::test {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
/// Figures with twelve digits after the point.
constexpr double kTwelfthDigit = 0.5e-12;
/// exp, a sum and a quotient of double.
constexpr double kSoftmaxRounding = 0x1p-48;

const RotarySpec kSeed{.head_dim = 128};

Rotary make(const RotarySpec& spec) {
  auto rotary = Rotary::make(spec);
  EXPECT_TRUE(rotary.ok()) << rotary.status().message();
  return *std::move(rotary);
}

double decay_at(const RotarySpec& spec, std::int64_t distance) {
  const auto sums = decay(make(spec), std::vector<std::int64_t>{distance});
  EXPECT_TRUE(sums.ok()) << sums.status().message();
  return sums->front();
}

struct Known {
  std::int64_t distance;
  double sum;
};

TEST(Decay, of_128_channels_has_the_true_figures_of_the_seeds) {
  constexpr Known known[] = {
      {0, 64}, {1, 62.093683805768}, {10, 42.820022898497}, {100, 30.543454701491}, {1000, 10.177728132211}, {10000, -1.785201924852}};
  for (const auto& [distance, sum] : known) EXPECT_NEAR(decay_at(kSeed, distance), sum, kTwelfthDigit) << distance;
}

TEST(Decay, is_not_monotone_and_first_negative_at_1707) {
  EXPECT_GT(decay_at(kSeed, 12), decay_at(kSeed, 11));
  EXPECT_GE(decay_at(kSeed, 1706), 0);
  EXPECT_LT(decay_at(kSeed, 1707), 0);
  const Rotary rotary = make(kSeed);
  EXPECT_EQ(*first_negative(rotary, 4096), 1707);
}

TEST(Decay, is_even_and_largest_at_distance_0) {
  for (const std::int64_t width : {2, 6, 34, 128}) {
    const RotarySpec spec{.head_dim = width, .base = 777};
    for (const std::int64_t distance : {std::int64_t{3}, std::int64_t{65537}, std::numeric_limits<std::int64_t>::max()}) {
      EXPECT_EQ(decay_at(spec, distance), decay_at(spec, -distance));
      EXPECT_LT(std::abs(decay_at(spec, distance)), decay_at(spec, 0));
    }
    EXPECT_EQ(decay_at(spec, 0), static_cast<double>(width / 2));
  }
}

TEST(Decay, does_not_depend_on_pairing_sense_numerics_or_channels_that_are_not_rotated) {
  RotarySpec other{.head_dim = 200, .rotary_width = 128, .rotary_offset = 41, .pairing = Pairing::interleaved};
  other.sense = Sense::clockwise;
  other.numerics = Numerics::hf;
  for (const std::int64_t distance : {1, 17, 123456}) EXPECT_EQ(decay_at(other, distance), decay_at(kSeed, distance));
}

TEST(Decay, of_a_spec_with_an_amplitude_has_its_square) {
  const RotarySpec spec{.head_dim = 6, .scaling = GivenFrequencies{.frequencies = {1, 0.5, 0}, .amplitude = 1.5}};
  EXPECT_EQ(decay_at(spec, 0), 3 * 2.25);
  EXPECT_NEAR(decay_at(spec, 5), 2.25 * (std::cos(5.0) + std::cos(2.5) + 1), 0x1p-50);
}

TEST(Decay, of_several_axes_is_along_all_of_them_at_once) {
  const RotarySpec axes{.head_dim = 128, .axes = {.sections = {16, 24, 24}}};
  EXPECT_EQ(decay_at(axes, 321), decay_at(kSeed, 321));
  const RotarySpec directions{.head_dim = 4, .scaling = GivenDirections{.axes = 2, .heads = 1, .frequencies = {1, 0.5, 0.25, -0.125}}};
  EXPECT_NEAR(decay_at(directions, 3), std::cos(3 * 1.25) + std::cos(3 * 0.375), 0x1p-50);
}

TEST(Decay, of_two_specs_stands_side_by_side) {
  const Rotary both[] = {make(kSeed), make({.head_dim = 96, .base = 500000, .scaling = LinearScaling{4}})};
  const std::vector<std::int64_t> distances{0, 7, -4096};
  const auto matrix = decay(both, distances);
  ASSERT_TRUE(matrix.ok());
  ASSERT_EQ(matrix->rows, 3);
  ASSERT_EQ(matrix->columns, 2);
  for (std::size_t row = 0; row < 3; ++row) {
    for (std::size_t column = 0; column < 2; ++column) {
      EXPECT_EQ(matrix->values[2 * row + column], decay_at(both[column].spec(), distances[row]));
    }
  }
  EXPECT_EQ(decay(both, {})->values.size(), 0U);
}

TEST(Decay, of_a_list_that_is_even_or_nearly_so_is_that_of_its_distances) {
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  const std::vector<std::int64_t> lists[] = {{0, 5, 10, 15, 20}, {7, -9, -25},         {0, 2, 4, 7},      {0, 3, 4, 6},
                                             {0, most, 8},       {-most - 1, 0, most}, {0, -most - 1, 0}, {9}};
  for (const std::vector<std::int64_t>& distances : lists) {
    const auto sums = decay(make(kSeed), distances);
    ASSERT_TRUE(sums.ok());
    for (std::size_t i = 0; i < distances.size(); ++i) EXPECT_EQ((*sums)[i], decay_at(kSeed, distances[i])) << distances[i];
  }
}

TEST(Decay, refuses_what_has_no_score_by_distance) {
  RotarySpec per_channel{.head_dim = 8, .pairing = Pairing::interleaved};
  per_channel.lanes = Lanes::per_channel_frequencies;
  const std::int64_t one[] = {1};
  EXPECT_EQ(decay(make(per_channel), one).status().message(),
            "decay: lanes are per_channel_frequencies, so that scores depend on both positions, wanted lanes alike");
  const RotarySpec directions{.head_dim = 2, .scaling = GivenDirections{.axes = 2, .heads = 3, .frequencies = {1, 2, 3, 4, 5, 6}}};
  EXPECT_EQ(decay(make(directions), one).status().message(), "decay: 3 heads have directions of their own, wanted one for all");
  EXPECT_EQ(first_negative(make(per_channel), 10).status().kind(), ErrorKind::unsupported);
  EXPECT_EQ(distance_weights(make(per_channel), 10).status().kind(), ErrorKind::unsupported);
  EXPECT_EQ(first_negative(make(kSeed), 0).status().message(), "first_negative: length is 0, wanted at least 1");
}

TEST(Decay, that_never_falls_below_0_has_no_first_negative) {
  EXPECT_EQ(*first_negative(make(kSeed), 1707), std::nullopt);
  EXPECT_EQ(*first_negative(make(kSeed), 1708), 1707);
  EXPECT_EQ(*first_negative(make({.head_dim = 6, .scaling = GivenFrequencies{.frequencies = {1, 0, 0}}}), 1000), std::nullopt);
}

struct Weight {
  std::int64_t distance;
  double sum;
  double share;
  double score;
  double weight;
};

/// By mpmath at 200 bits, a context of 1001.
constexpr Weight kWeights[] = {{0, 64.0, 1.0, 5.6568542494923802, 0.039274319424671264},
                               {1, 62.093683805767625, 0.97021380946511914, 5.4883581109889497, 0.033184228471943364},
                               {10, 42.820022898497096, 0.66906285778901713, 3.7847910702613176, 0.0060406261651420754},
                               {11, 42.344323217694925, 0.66163005027648321, 3.7427447614983812, 0.0057919056632934081},
                               {12, 42.381386296894252, 0.66220916088897268, 3.7460207058275684, 0.00581091073659074},
                               {100, 30.543454701490665, 0.47724147971079164, 2.6996854925360232, 0.0020409228817533492},
                               {1000, 10.177728132210646, 0.15902700206579135, 0.89959257241990529, 0.00033733093701365995}};

TEST(DistanceWeights, stand_beside_sum_share_and_score_as_in_the_seed) {
  const auto list = distance_weights(make(kSeed), 1001);
  ASSERT_TRUE(list.ok());
  ASSERT_EQ(list->size(), 1001U);
  for (const Weight& known : kWeights) {
    const DistanceWeight& is = (*list)[static_cast<std::size_t>(known.distance)];
    EXPECT_EQ(is.distance, known.distance);
    EXPECT_NEAR(is.sum, known.sum, 0x1p-47);
    EXPECT_NEAR(is.share, known.share, 0x1p-52);
    EXPECT_NEAR(is.score, known.score, 0x1p-49);
    EXPECT_NEAR(is.weight, known.weight, known.weight * kSoftmaxRounding);
  }
  double total = 0;
  for (const DistanceWeight& w : *list) total += w.weight;
  EXPECT_NEAR(total, 1, kSoftmaxRounding);
}

TEST(DistanceWeights, have_the_sums_of_decay_at_every_distance_of_several_blocks) {
  for (const std::int64_t width : {2, 130, 2048}) {
    const Rotary rotary = make({.head_dim = width, .scaling = YarnScaling{.factor = 4, .original_length = 64}});
    const auto list = distance_weights(rotary, 201);
    ASSERT_TRUE(list.ok());
    std::vector<std::int64_t> distances(201);
    std::iota(distances.begin(), distances.end(), 0);
    const auto sums = decay(rotary, distances);
    for (std::size_t i = 0; i < distances.size(); ++i) EXPECT_EQ((*list)[i].sum, (*sums)[i]) << width << " " << i;
  }
}

TEST(DistanceWeights, count_the_softmax_scale_and_all_channels_of_the_head) {
  const RotarySpec spec{
      .head_dim = 10, .rotary_width = 4, .scaling = YarnScaling{.factor = 40, .original_length = 4096, .mscale = 1, .mscale_all_dim = 1}};
  const Rotary rotary = make(spec);
  ASSERT_NE(rotary.softmax_scale(), 1);
  const auto list = distance_weights(rotary, 3);
  for (const DistanceWeight& w : *list) EXPECT_NEAR(w.score, rotary.softmax_scale() * w.sum / std::sqrt(10.0), 0x1p-50);
}

TEST(DistanceWeights, with_a_bias_are_of_score_and_bias_together) {
  const std::vector<double> bias{0, -0.5, -1, -kInfinity};
  const auto plain = distance_weights(make(kSeed), 4);
  const auto biased = distance_weights(make(kSeed), 4, bias);
  ASSERT_TRUE(biased.ok());
  std::vector<double> scores;
  for (std::size_t i = 0; i < 4; ++i) scores.push_back((*plain)[i].score + bias[i]);
  const auto weights = softmax_weights(scores);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ((*biased)[i].score, scores[i]);
    EXPECT_EQ((*biased)[i].weight, (*weights)[i]);
    EXPECT_EQ((*biased)[i].sum, (*plain)[i].sum);
  }
  EXPECT_EQ((*biased)[3].weight, 0);
}

TEST(SoftmaxWeights, are_those_of_the_definition_and_survive_large_scores) {
  const std::vector<double> scores{0.25, -3, 2, -kInfinity, 0};
  const auto weights = softmax_weights(scores);
  ASSERT_TRUE(weights.ok());
  long double sum = 0;
  for (const double s : scores) sum += std::exp(static_cast<long double>(s));
  for (std::size_t i = 0; i < scores.size(); ++i) {
    EXPECT_NEAR((*weights)[i], static_cast<double>(std::exp(static_cast<long double>(scores[i])) / sum), kSoftmaxRounding);
  }
  EXPECT_EQ(*softmax_weights(std::vector<double>{1e308, 1e308, -1e308}), (std::vector<double>{0.5, 0.5, 0}));
}

TEST(SoftmaxWeights, refuse_what_has_no_softmax) {
  const auto message = [](std::vector<double> scores) { return softmax_weights(scores).status().message(); };
  EXPECT_EQ(message({}), "softmax_weights: there are no scores, wanted at least one");
  EXPECT_EQ(message({1, std::nan("")}), "softmax_weights: score 1 is nan, wanted a number or -infinity");
  EXPECT_EQ(message({kInfinity}), "softmax_weights: score 0 is inf, wanted a number or -infinity");
  EXPECT_EQ(message({-kInfinity, -kInfinity}), "softmax_weights: every score is -inf, wanted a key that is looked at");
}

TEST(DistanceWeights, refuse_a_context_or_a_bias_that_does_not_fit) {
  const Rotary rotary = make(kSeed);
  EXPECT_EQ(distance_weights(rotary, 0).status().message(), "distance_weights: context is 0, wanted 1 to 16777216");
  EXPECT_FALSE(distance_weights(rotary, (1 << 24) + 1).ok());
  EXPECT_EQ(distance_weights(rotary, 3, std::vector<double>{1, 2}).status().message(),
            "distance_weights: bias has 2 distances, wanted none or as many as the context, 3");
  EXPECT_EQ(distance_weights(rotary, 1, std::vector<double>{std::nan("")}).status().message(),
            "distance_weights: bias 0 is nan, wanted a number or -infinity");
}

/// The table of the seeds: d = 8, positions 0 to 10, three to five digits.
TEST(Sinusoid, of_8_channels_at_positions_0_to_10_is_the_table_of_the_seeds) {
  constexpr double sines[] = {0, 0.841, 0.909, 0.141, -0.757, -0.959, -0.279, 0.657, 0.989, 0.412, -0.544};
  constexpr double cosines[] = {1, 0.540, -0.416, -0.990, -0.654, 0.284, 0.960, 0.754, -0.146, -0.911, -0.839};
  constexpr double slower[] = {0, 0.0998, 0.1987, 0.2955, 0.3894, 0.4794, 0.5646, 0.6442, 0.7174, 0.7833, 0.8415};
  std::vector<double> cos(11 * 4);
  std::vector<double> sin(11 * 4);
  const Extents shape{1, 11, 1, 4};
  ASSERT_TRUE(make({.head_dim = 8}).cos_sin(positions_from(0), view(cos.data(), shape), view(sin.data(), shape)).ok());
  for (std::size_t p = 0; p < 11; ++p) {
    EXPECT_NEAR(sin[4 * p], sines[p], 0.5e-3) << p;
    EXPECT_NEAR(cos[4 * p], cosines[p], 0.5e-3) << p;
    EXPECT_NEAR(sin[4 * p + 1], slower[p], 0.5e-4) << p;
    for (std::size_t i = 0; i < 4; ++i) {
      const double angle = static_cast<double>(p) * std::pow(10.0, -static_cast<double>(i));
      EXPECT_NEAR(sin[4 * p + i], std::sin(angle), 0x1p-49);
      EXPECT_NEAR(cos[4 * p + i], std::cos(angle), 0x1p-49);
    }
  }
}

}  // namespace
}  // namespace phasor::test
