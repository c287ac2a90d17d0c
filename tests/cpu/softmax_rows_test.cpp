// SPDX-License-Identifier: Apache-2.0
// exp and tanh of attention over their whole range, and rows of softmax with and without visible keys, on every target.
#include <cmath>
#include <limits>
#include <vector>

#include "every_part.hpp"

namespace phasor::test {
namespace {

using attend::kKeyTile;
using attend::kPadding;
using attend::padded;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// ---- exp and tanh ----

/// The largest relative error over a list, y against a function of long double, but for an absolute error.
template <class T>
double worst(const std::vector<T>& x, const std::vector<T>& y, long double (*truth)(long double), long double absolute) {
  double most = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const long double wanted = truth(static_cast<long double>(x[i]));
    const long double error = std::fabs(static_cast<long double>(y[i]) - wanted);
    if (std::isnan(error)) return kInfinity;
    if (error > absolute) most = std::max(most, static_cast<double>((error - absolute) / std::fabs(wanted)));
  }
  return most;
}

/// From low to high in steps that are no round numbers, filled up to a multiple of kPadding with high.
template <class T>
std::vector<T> sweep(double low, double high, int count) {
  std::vector<T> list;
  for (int i = 0; i < count; ++i) list.push_back(static_cast<T>(low + (high - low) * i / (count - 1)));
  while (list.size() % kPadding != 0) list.push_back(static_cast<T>(high));
  return list;
}

TEST(AttentionExp, is_near_e_to_the_x_over_its_whole_range) {
  on_every_part([](const auto& parts, auto zero) {
    using T = decltype(zero);
    constexpr bool kSingle = std::is_same_v<T, float>;
    for (const double reach : {1e-30, 1e-3, 1.0, 20.0, kSingle ? 86.0 : 707.0}) {
      const std::vector<T> x = sweep<T>(-reach, std::min(reach, 40.0), 20011);
      std::vector<T> y(x.size());
      parts.exponential(x.data(), y.data(), static_cast<std::int64_t>(x.size()));
      const long double cut = kSingle ? 0x1p-64L : 0x1p-512L;
      EXPECT_LE(worst(x, y, [](long double v) { return std::exp(v); }, cut), !kSingle ? 0x1p-50 : reach > 20 ? 0x1p-21 : 0x1p-22) << reach;
    }
  });
}

TEST(AttentionExp, is_exact_where_softmax_counts_on_it) {
  on_every_part([](const auto& parts, auto zero) {
    using T = decltype(zero);
    using Limits = std::numeric_limits<T>;
    const T lowest = std::is_same_v<T, float> ? T(-44.4) : T(-354.9);
    std::vector<T> x(kPadding, T{0});
    x[1] = -T{0};
    x[2] = -Limits::infinity();
    x[3] = Limits::lowest();
    x[4] = lowest;
    x[5] = -1000;
    x[6] = Limits::quiet_NaN();
    x[7] = Element<T>::from_bits(std::is_same_v<T, float> ? 0xffc12345 : 0xfff8000012345677);
    std::vector<T> y(x.size());
    parts.exponential(x.data(), y.data(), kPadding);
    EXPECT_EQ(y[0], 1);
    EXPECT_EQ(y[1], 1);
    for (const int i : {2, 3, 4, 5}) EXPECT_EQ(y[static_cast<std::size_t>(i)], 0) << i;
    EXPECT_TRUE(std::isnan(y[6]));
    EXPECT_TRUE(std::isnan(y[7]));
  });
}

TEST(AttentionTanh, is_near_tanh_and_odd) {
  on_every_part([](const auto& parts, auto zero) {
    using T = decltype(zero);
    for (const double reach : {1e-30, 1e-3, 0.7, 3.0, 30.0, 1e30}) {
      const std::vector<T> x = sweep<T>(-reach, reach, 20011);
      std::vector<T> y(x.size());
      parts.hyperbolic_tangent(x.data(), y.data(), static_cast<std::int64_t>(x.size()));
      EXPECT_LE(worst(x, y, [](long double v) { return std::tanh(v); }, 0), (std::is_same_v<T, float> ? 0x1p-21 : 0x1p-49)) << reach;
    }
    std::vector<T> ends(kPadding, std::numeric_limits<T>::infinity());
    ends[1] = -ends[0];
    std::vector<T> y(ends.size());
    parts.hyperbolic_tangent(ends.data(), y.data(), kPadding);
    EXPECT_EQ(y[0], 1);
    EXPECT_EQ(y[1], -1);
  });
}

// ---- Rows of softmax ----

/// Scores of some tiles: ordinary rows, a row that sees nothing, one that sees its first key in the second tile, one with a single key,
/// one of very large and very small numbers.
template <class T>
std::vector<std::vector<T>> score_tiles(std::int64_t rows, int tiles) {
  const T hidden = -std::numeric_limits<T>::infinity();
  std::vector<std::vector<T>> list;
  for (int t = 0; t < tiles; ++t) {
    list.push_back(numbers<T>(rows * kKeyTile, static_cast<std::uint64_t>(10 + t)));
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t j = 0; j < kKeyTile; ++j) {
        T& score = list.back()[static_cast<std::size_t>(r * kKeyTile + j)];
        if (r % 5 == 1 || (r % 5 == 2 && t == 0) || (r % 5 == 3 && (t != 1 || j != 40))) score = hidden;
        if (r % 5 == 4) score *= 20;
      }
    }
  }
  return list;
}

TEST(AttentionSoftmax, of_tiles_is_the_softmax_of_the_whole_row) {
  on_every_part([](const auto& parts, auto zero) {
    using T = decltype(zero);
    const double tolerance = std::is_same_v<T, float> ? 0x1p-19 : 0x1p-48;
    for (const std::int64_t rows : {1, 7, 96}) {
      const std::vector<std::vector<T>> given = score_tiles<T>(rows, 3);
      const std::size_t slots = static_cast<std::size_t>(padded(rows));
      std::vector<T> maximum(slots, -std::numeric_limits<T>::infinity());
      std::vector<T> sum(slots, T{0});
      std::vector<T> factor(slots);
      std::vector<T> weight(static_cast<std::size_t>(rows), T{0});  // sum of p times the number of the key: stands for the output
      for (std::size_t t = 0; t < given.size(); ++t) {
        std::vector<T> p = given[t];
        const bool changed = parts.update_softmax({rows, p.data(), maximum.data(), sum.data(), factor.data()});
        EXPECT_TRUE(changed || t > 0);
        for (std::size_t r = 0; r < weight.size(); ++r) {
          ASSERT_TRUE(changed || factor[r] == 1);
          weight[r] *= factor[r];
          for (std::size_t j = 0; j < kKeyTile; ++j) weight[r] += p[r * kKeyTile + j] * static_cast<T>(t * kKeyTile + j);
        }
      }
      for (std::size_t r = 0; r < weight.size(); ++r) {
        double most = -kInfinity;
        double total = 0;
        double weighted = 0;
        for (const auto& tile : given) {
          for (std::size_t j = 0; j < kKeyTile; ++j) most = std::max(most, static_cast<double>(tile[r * kKeyTile + j]));
        }
        EXPECT_EQ(maximum[r], static_cast<T>(most)) << r;
        for (std::size_t t = 0; t < given.size(); ++t) {
          for (std::size_t j = 0; j < kKeyTile; ++j) {
            const double p = most == -kInfinity ? 0 : std::exp(static_cast<double>(given[t][r * kKeyTile + j]) - most);
            total += p;
            weighted += p * static_cast<double>(t * kKeyTile + j);
          }
        }
        EXPECT_LE(std::abs(static_cast<double>(sum[r]) - total), tolerance * total) << r;
        EXPECT_LE(std::abs(static_cast<double>(weight[r]) - weighted), tolerance * weighted) << r;
      }
    }
  });
}

TEST(AttentionSoftmax, adds_rows_by_where_they_lie_before_anything_else) {
  on_every_part([](const auto& parts, auto zero) {
    using T = decltype(zero);
    constexpr std::int64_t kRows = 23;
    const std::size_t slots = static_cast<std::size_t>(padded(kRows));
    const std::vector<T> band = numbers<T>(4 * kRows * kKeyTile, 20);
    const T* const middle = band.data() + kRows;
    // Each row one place before the row above; the same row for all; rows with a gap, and from row 6 on elsewhere.
    const cpu::AddedRows<T> lists[] = {{.data = middle, .step = -1},
                                       {.data = middle, .step = 0},
                                       {.data = middle, .step = kKeyTile - 1, .wrap = 6, .wrapped = middle + 100}};
    for (const cpu::AddedRows<T>& added : lists) {
      const std::vector<T> given = score_tiles<T>(kRows, 1)[0];
      std::vector<T> is = given;
      std::vector<T> wanted = given;
      for (std::int64_t r = 0; r < kRows; ++r) {
        const T* const from = (r < added.wrap ? added.data : added.wrapped) + r * added.step;
        for (std::int64_t j = 0; j < kKeyTile; ++j) wanted[static_cast<std::size_t>(r * kKeyTile + j)] += from[j];
      }
      std::vector<T> numbers_of[2][3];
      for (auto& list : numbers_of) {
        list[0].assign(slots, -std::numeric_limits<T>::infinity());
        list[1].assign(slots, T{0});
        list[2].assign(slots, T{0});
      }
      auto& [by_softmax, before] = numbers_of;
      parts.update_softmax({kRows, is.data(), by_softmax[0].data(), by_softmax[1].data(), by_softmax[2].data(), added});
      parts.update_softmax({kRows, wanted.data(), before[0].data(), before[1].data(), before[2].data(), {}});
      EXPECT_EQ(is, wanted);
      for (int n = 0; n < 3; ++n) EXPECT_EQ(by_softmax[n], before[n]) << n;
    }
  });
}

TEST(AttentionSoftmax, says_when_no_maximum_rose) {
  on_every_part([](const auto& parts, auto zero) {
    using T = decltype(zero);
    std::vector<T> scores(2 * kKeyTile, T{1});
    std::vector<T> maximum(kPadding, T{3});
    std::vector<T> sum(kPadding, T{2});
    std::vector<T> factor(kPadding);
    EXPECT_FALSE(parts.update_softmax({2, scores.data(), maximum.data(), sum.data(), factor.data()}));
    EXPECT_EQ(factor[0], 1);
    EXPECT_EQ(maximum[1], 3);
    scores.assign(scores.size(), T{1});
    scores[kKeyTile + 63] = T{4};
    EXPECT_TRUE(parts.update_softmax({2, scores.data(), maximum.data(), sum.data(), factor.data()}));
    EXPECT_EQ(factor[0], 1);
    EXPECT_LT(factor[1], 1);
    EXPECT_EQ(maximum[1], 4);
  });
}

TEST(AttentionSoftmax, probabilities_of_a_row_without_keys_are_zeros) {
  on_every_part([](const auto& parts, auto zero) {
    using T = decltype(zero);
    const T hidden = -std::numeric_limits<T>::infinity();
    std::vector<T> scores = numbers<T>(3 * kKeyTile, 8);
    const std::vector<T> given = scores;
    std::fill_n(scores.begin() + kKeyTile, kKeyTile, hidden);
    scores[2 * kKeyTile + 5] = hidden;
    const T lse[] = {T(4.5), hidden, T(4.25)};
    parts.probabilities(3, lse, scores.data());
    for (std::size_t i = 0; i < scores.size(); ++i) {
      const std::size_t r = i / kKeyTile;
      if (r == 1 || i == 2 * kKeyTile + 5) {
        ASSERT_EQ(scores[i], 0) << i;
        continue;
      }
      const double wanted = std::exp(static_cast<double>(given[i]) - static_cast<double>(lse[r]));
      ASSERT_LE(std::abs(static_cast<double>(scores[i]) - wanted), (std::is_same_v<T, float> ? 0x1p-20 : 0x1p-49) * wanted) << i;
    }
  });
}

}  // namespace
}  // namespace phasor::test
