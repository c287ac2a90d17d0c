// SPDX-License-Identifier: Apache-2.0
// Sums by distance against MPFR at 512 bits: S is the nearest float64 at any distance, consecutive ones too; gaps and first positions
// that training has not seen are those of the definitions.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "phasor/analysis.hpp"
#include "plan/mpfr_real.hpp"

namespace phasor::test {
namespace {

using oracle::MpfrReal;

struct Ladder {
  std::int64_t width;
  double base;
  double factor = 1;
  double amplitude = 1;
};

/// base^(-2i/R) / factor.
MpfrReal frequency(const Ladder& ladder, std::int64_t pair) {
  const MpfrReal exponent = MpfrReal::of_integer(2 * pair) / MpfrReal::of_integer(ladder.width);
  return MpfrReal(1) / oracle::power(ladder.base, exponent) / ladder.factor;
}

std::vector<MpfrReal> frequencies(const Ladder& ladder) {
  std::vector<MpfrReal> list;
  for (std::int64_t i = 0; i < ladder.width / 2; ++i) list.push_back(frequency(ladder, i));
  return list;
}

double truth(const std::vector<MpfrReal>& ladder, double amplitude, std::int64_t distance) {
  MpfrReal sum;
  for (const MpfrReal& w : ladder) sum = sum + oracle::cos_of(w * MpfrReal::of_integer(distance));
  return (sum * amplitude * amplitude).nearest_double();
}

Rotary make(const Ladder& ladder) {
  RotarySpec spec{.head_dim = ladder.width, .base = ladder.base};
  spec.scaling = GivenFactors{.factors = std::vector<double>(static_cast<std::size_t>(ladder.width / 2), ladder.factor),
                              .amplitude = ladder.amplitude};
  auto rotary = Rotary::make(spec);
  EXPECT_TRUE(rotary.ok()) << rotary.status().message();
  return *std::move(rotary);
}

const Ladder kLadders[] = {{2, 10000}, {6, 10000, 1, 1.25}, {34, 500000, 3.7}, {128, 10000}, {130, 1e6, 8, 1.1386294361119891}};

TEST(DecayOracle, every_sum_is_the_nearest_float64_at_any_distance) {
  std::mt19937_64 random(20);
  for (const Ladder& ladder : kLadders) {
    const std::vector<MpfrReal> w = frequencies(ladder);
    std::vector<std::int64_t> distances{
        0, 1, -1, 1707, 1000000, std::numeric_limits<std::int64_t>::max(), std::numeric_limits<std::int64_t>::min()};
    for (int i = 0; i < 40; ++i) distances.push_back(static_cast<std::int64_t>(random() >> (random() % 60)));
    const auto sums = decay(make(ladder), distances);
    ASSERT_TRUE(sums.ok());
    for (std::size_t i = 0; i < distances.size(); ++i) {
      EXPECT_EQ((*sums)[i], truth(w, ladder.amplitude, distances[i])) << ladder.width << " at " << distances[i];
    }
  }
}

/// Such lists are walked, by sums of angles.
TEST(DecayOracle, every_sum_of_even_distances_is_the_nearest_float64) {
  constexpr std::int64_t far = std::int64_t{1} << 61;
  struct Even {
    std::int64_t first;
    std::int64_t step;
    int count;
  };
  for (const Ladder& ladder : kLadders) {
    const std::vector<MpfrReal> w = frequencies(ladder);
    for (const Even& even :
         {Even{0, 16, 129}, Even{5, 0, 3}, Even{-7, 1, 2}, Even{4096, -63, 70}, Even{10'000'000, 999'983, 40}, Even{-far, far, 3}}) {
      std::vector<std::int64_t> distances;
      for (int i = 0; i < even.count; ++i) distances.push_back(even.first + i * even.step);
      const auto sums = decay(make(ladder), distances);
      ASSERT_TRUE(sums.ok());
      for (std::size_t i = 0; i < distances.size(); ++i) {
        EXPECT_EQ((*sums)[i], truth(w, ladder.amplitude, distances[i])) << ladder.width << " at " << distances[i];
      }
    }
  }
}

TEST(DecayOracle, every_sum_of_a_context_is_the_nearest_float64) {
  for (const Ladder& ladder : kLadders) {
    const std::vector<MpfrReal> w = frequencies(ladder);
    const auto weights = distance_weights(make(ladder), 300);
    ASSERT_TRUE(weights.ok());
    for (const DistanceWeight& is : *weights) EXPECT_EQ(is.sum, truth(w, ladder.amplitude, is.distance)) << ladder.width;
  }
}

/// |e(0) - e(distance)| from the sines and cosines of both.
MpfrReal chord(const std::vector<MpfrReal>& ladder, double amplitude, std::int64_t distance) {
  MpfrReal sum;
  for (const MpfrReal& w : ladder) {
    const MpfrReal angle = w * MpfrReal::of_integer(distance);
    const MpfrReal x = oracle::cos_of(angle) - 1;
    const MpfrReal y = oracle::sin_of(angle);
    sum = sum + x * x + y * y;
  }
  return oracle::sqrt_of(sum) * amplitude;
}

TEST(GapOracle, smallest_gap_is_that_of_the_definition) {
  // The last turns so little that 1 - cos has no digit left in float64, nor in double-double.
  const Ladder ladders[] = {{2, 10000}, {4, 10000, 1, 1.25}, {6, 50}, {34, 500000, 3.7}, {128, 10000}, {2, 10000, 0x1p60}};
  for (const Ladder& ladder : ladders) {
    const std::vector<MpfrReal> w = frequencies(ladder);
    MpfrReal smallest = chord(w, ladder.amplitude, 1);
    std::int64_t at = 1;
    for (std::int64_t distance = 2; distance < 2000; ++distance) {
      const MpfrReal here = chord(w, ladder.amplitude, distance);
      if (here < smallest) {
        smallest = here;
        at = distance;
      }
    }
    const auto gap = smallest_gap(make(ladder), 2000);
    ASSERT_TRUE(gap.ok());
    EXPECT_EQ(gap->first, 0);
    EXPECT_EQ(gap->second, at) << ladder.width;
    const double wanted = smallest.nearest_double();
    EXPECT_NEAR(gap->gap, wanted, wanted * static_cast<double>(ladder.width + 8) * 0x1p-53);
  }
}

/// The first position, counted up from `trained`, whose phase is at least that of `trained` as trained. Linear scaling only.
TEST(PlannerOracle, extrapolation_begins_where_the_definition_says) {
  for (const auto& [trained, wanted] : {std::pair{2048, 8192}, {1000, 3333}, {77, 1001}, {5, 7}}) {
    PlannerInput input{.spec = {.head_dim = 66, .base = 1e6}, .trained_length = trained, .wanted_length = wanted};
    const double factor = static_cast<double>(wanted) / trained;
    input.scalings = {LinearScaling{factor}, NtkScaling{factor}};
    const auto plans = plan_scalings(input);
    ASSERT_TRUE(plans.ok());
    const Ladder as_trained{66, 1e6};
    for (std::int64_t pair = 0; pair < 33; ++pair) {
      const MpfrReal seen = frequency(as_trained, pair) * MpfrReal(trained);
      const bool comes_round = seen > MpfrReal(2) * MpfrReal::pi();
      const MpfrReal bases[] = {MpfrReal(1e6), MpfrReal(1e6) * oracle::power(factor, MpfrReal(66) / MpfrReal(64))};
      for (std::size_t method = 0; method < 2; ++method) {
        const PlannedPair& is = (*plans)[1 + method].pairs[static_cast<std::size_t>(pair)];
        const MpfrReal exponent = MpfrReal::of_integer(2 * pair) / MpfrReal(66);
        const MpfrReal w = MpfrReal(1) / oracle::power(bases[method], exponent) / (method == 0 ? factor : 1.0);
        EXPECT_EQ(is.frequency, w.nearest_double());
        EXPECT_EQ(is.ratio, (w / frequency(as_trained, pair)).nearest_double());
        EXPECT_EQ(is.wanted_turns, (w * MpfrReal(wanted) / (MpfrReal(2) * MpfrReal::pi())).nearest_double());
        ASSERT_EQ(is.unseen_from.has_value(), !comes_round) << pair;
        if (comes_round) continue;
        // MPFR's own rounding, as the library's, must not decide whole numbers.
        const MpfrReal guard = MpfrReal(1) + MpfrReal(0x1p-300);
        EXPECT_FALSE(w * MpfrReal::of_integer(*is.unseen_from) * guard < seen) << pair;
        EXPECT_TRUE(w * MpfrReal::of_integer(*is.unseen_from - 1) * guard < seen) << pair;
      }
    }
  }
}

}  // namespace
}  // namespace phasor::test
