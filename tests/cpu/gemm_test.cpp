// SPDX-License-Identifier: Apache-2.0
// The parts of attention, on every target: matrix products of awkward sizes, exp and tanh over their whole range, packing of every dtype,
// rows of softmax with and without visible keys.
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "cpu/attention_parts.hpp"
#include "cpu/rotary.hpp"
#include "tensor.hpp"

namespace phasor::test {
namespace {

using cpu::AttentionParts;
using cpu::Gemm;
using job::kKeyTile;
using job::kPadding;
using job::padded;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

template <class T>
const AttentionParts<T>& parts_of(const cpu::AttentionPartsOfTarget& entry) {
  if constexpr (std::is_same_v<T, float>) return entry.f32;
  if constexpr (std::is_same_v<T, double>) return entry.f64;
}

/// body(parts, T) for float and double on every target that this machine runs.
template <class Body>
void on_every_part(Body body) {
  const cpu::AttentionPartsTable table = cpu::attention_parts();
  const cpu::RotaryKernelTable known = cpu::rotary_kernels();
  ASSERT_EQ(table.count, known.count);
  for (int i = 0; i < table.count; ++i) {
    ASSERT_STREQ(table.entries[i].target, known.entries[i].target);
    if (!known.entries[i].available()) continue;
    SCOPED_TRACE(table.entries[i].target);
    body(table.entries[i].f32, float{});
    body(table.entries[i].f64, double{});
  }
}

template <class T>
std::vector<T> numbers(std::int64_t count, std::uint64_t seed) {
  Random random(seed);
  std::vector<T> list(static_cast<std::size_t>(count));
  for (T& x : list) x = static_cast<T>(random.number());
  return list;
}

// ---- Products ----

struct Size {
  std::int64_t m, n, k;
};

template <class T>
struct Product {
  Size size;
  bool transposed;
  bool add;
  bool factor;
};

/// |is - wanted| of an element, against the bound of a sum of k products in any order, k + 2 roundings of the sum of sizes.
template <class T>
bool near_sum(T is, double wanted, double sizes, std::int64_t k) {
  return std::abs(static_cast<double>(is) - wanted) <= static_cast<double>(k + 2) * std::numeric_limits<T>::epsilon() / 2 * sizes;
}

template <class T>
void check_product(const AttentionParts<T>& parts, const Product<T>& p) {
  const auto [m, n, k] = p.size;
  const std::int64_t gap = 3;  // rows are further apart than they are long; what lies between must stay
  const std::int64_t a_row = p.transposed ? 1 : k + gap;
  const std::int64_t a_k = p.transposed ? m + gap : 1;
  const std::vector<T> a = numbers<T>((m + gap) * (k + gap), 1);
  const std::vector<T> b = numbers<T>((k + 1) * (n + gap), 2);
  const std::vector<T> before = numbers<T>(m * (n + gap) + gap, 3);
  const std::vector<T> factor = numbers<T>(m, 4);
  std::vector<T> c = before;
  parts.gemm(Gemm<T>{m, n, k, a.data(), a_row, a_k, b.data(), n + gap, c.data(), n + gap, p.add, p.factor ? factor.data() : nullptr});
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 0; j < n + gap; ++j) {
      const std::size_t at = static_cast<std::size_t>(i * (n + gap) + j);
      if (j >= n) {
        ASSERT_EQ(c[at], before[at]) << "between rows " << i << " " << j;
        continue;
      }
      double sum = p.add ? static_cast<double>(before[at]) * (p.factor ? static_cast<double>(factor[static_cast<std::size_t>(i)]) : 1) : 0;
      double sizes = std::abs(sum);
      for (std::int64_t t = 0; t < k; ++t) {
        const double x =
            static_cast<double>(a[static_cast<std::size_t>(i * a_row + t * a_k)]) * b[static_cast<std::size_t>(t * (n + gap) + j)];
        sum += x;
        sizes += std::abs(x);
      }
      ASSERT_TRUE(near_sum(c[at], sum, sizes * (1 + 0x1p-20), k))
          << m << "x" << n << "x" << k << " at " << i << " " << j << ": " << c[at] << " " << sum;
    }
  }
}

TEST(AttentionGemm, is_the_product_for_every_number_of_rows_and_columns) {
  on_every_part([](const auto& parts, auto zero) {
    using T = decltype(zero);
    for (std::int64_t m = 1; m <= 15; ++m) {
      for (const std::int64_t n : {16, 32, 48, 64, 80, 96, 112, 144})
        check_product<T>(parts, {{m, n, 7}, m % 2 == 0, n % 32 == 0, m % 3 == 0});
    }
  });
}

TEST(AttentionGemm, takes_strides_sums_and_factors) {
  on_every_part([](const auto& parts, auto zero) {
    using T = decltype(zero);
    for (const Size size : {Size{96, 64, 64}, Size{97, 64, 128}, Size{5, 256, 1}, Size{64, 128, 33}, Size{3, 16, 0}}) {
      for (const bool transposed : {false, true}) {
        check_product<T>(parts, {size, transposed, false, false});
        check_product<T>(parts, {size, transposed, true, false});
        check_product<T>(parts, {size, transposed, true, true});
      }
    }
  });
}

TEST(AttentionGemm, of_no_rows_or_columns_writes_nothing) {
  on_every_part([](const auto& parts, auto zero) {
    using T = decltype(zero);
    check_product<T>(parts, {{0, 16, 4}, false, false, false});
    check_product<T>(parts, {{4, 0, 4}, false, false, false});
  });
}

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

// ---- Packing ----

/// body(parts, T, element) for every dtype on every target.
template <class Body>
void on_every_dtype(Body body) {
  on_every_part([&](const auto& parts, auto zero) {
    if constexpr (std::is_same_v<decltype(zero), double>) {
      body(parts, zero, Tag<double>());
    } else {
      body(parts, zero, Tag<float>());
      body(parts, zero, Tag<Float16>());
      body(parts, zero, Tag<BFloat16>());
    }
  });
}

TEST(AttentionPack, widens_multiplies_and_pads_with_zeros) {
  on_every_dtype([](const auto& parts, auto zero, auto tag) {
    using T = decltype(zero);
    using S = typename decltype(tag)::type;
    for (const std::int64_t width : {1, 3, 16, 31, 64, 80, 129}) {
      Tensor<S> tensor({1, 5, 2, width}, 9);
      tensor.with_numbers(0, width);
      const std::int64_t stride = padded(width) + 1;
      std::vector<T> out(static_cast<std::size_t>(7 * stride), T{77});
      parts.pack({&tensor.at(0, 0, 1, 0), dtype_of<S>, 2 * width, 5, width}, {out.data(), stride, 7}, T(0.375));
      for (std::int64_t r = 0; r < 7; ++r) {
        for (std::int64_t c = 0; c < stride; ++c) {
          const T wanted = c == padded(width) ? T{77} : r < 5 && c < width ? Element<S>::widen(tensor.at(0, r, 1, c)) * T(0.375) : T{0};
          ASSERT_EQ(out[static_cast<std::size_t>(r * stride + c)], wanted) << width << ": " << r << " " << c;
        }
      }
    }
  });
}

TEST(AttentionPack, turns_rows_into_columns) {
  on_every_dtype([](const auto& parts, auto zero, auto tag) {
    using T = decltype(zero);
    using S = typename decltype(tag)::type;
    for (const std::int64_t width : {1, 5, 32, 64, 67, 128, 200}) {
      for (const std::int64_t rows : {0, 1, 15, 16, 33, 64}) {
        Tensor<S> tensor({1, std::max<std::int64_t>(rows, 1), 3, width}, 9);
        tensor.with_numbers(0, width);
        const std::int64_t stride = kKeyTile + 1;
        std::vector<T> out(static_cast<std::size_t>(padded(width) * stride), T{77});
        parts.pack_transposed({&tensor.at(0, 0, 2, 0), dtype_of<S>, 3 * width, rows, width}, {out.data(), stride, padded(width)});
        for (std::int64_t c = 0; c < padded(width); ++c) {
          for (std::int64_t r = 0; r < stride; ++r) {
            const T wanted = r == kKeyTile ? T{77} : r < rows && c < width ? Element<S>::widen(tensor.at(0, r, 2, c)) : T{0};
            ASSERT_EQ(out[static_cast<std::size_t>(c * stride + r)], wanted) << width << " " << rows << ": " << r << " " << c;
          }
        }
      }
    }
  });
}

TEST(AttentionPack, transposes_tiles_of_any_size) {
  on_every_part([](const auto& parts, auto zero) {
    using T = decltype(zero);
    for (const Size size : {Size{1, 1, 0}, Size{96, 64, 0}, Size{17, 5, 0}, Size{3, 70, 0}, Size{64, 96, 0}}) {
      const std::vector<T> in = numbers<T>(size.m * (size.n + 2), 5);
      std::vector<T> out(static_cast<std::size_t>(size.n * (size.m + 1)), T{77});
      parts.transpose({in.data(), size.n + 2, size.m}, size.n, {out.data(), size.m + 1, size.n});
      for (std::int64_t c = 0; c < size.n; ++c) {
        for (std::int64_t r = 0; r <= size.m; ++r) {
          const T wanted = r == size.m ? T{77} : in[static_cast<std::size_t>(r * (size.n + 2) + c)];
          ASSERT_EQ(out[static_cast<std::size_t>(c * (size.m + 1) + r)], wanted) << r << " " << c;
        }
      }
    }
  });
}

TEST(AttentionUnpack, multiplies_rounds_to_nearest_even_and_writes_nothing_else) {
  on_every_dtype([](const auto& parts, auto zero, auto tag) {
    using T = decltype(zero);
    using S = typename decltype(tag)::type;
    for (const std::int64_t width : {1, 3, 16, 31, 64, 129}) {
      Tensor<S> is({1, 5, 2, width}, 9);
      Tensor<S> wanted = is;
      const std::vector<T> in = numbers<T>(5 * padded(width), 6);
      const std::vector<T> factor = numbers<T>(5, 7);
      for (std::int64_t r = 0; r < 5; ++r) {
        for (std::int64_t c = 0; c < width; ++c) {
          wanted.at(0, r, 1, c) =
              Element<S>::narrow(in[static_cast<std::size_t>(r * padded(width) + c)] * factor[static_cast<std::size_t>(r)]);
        }
      }
      parts.unpack({in.data(), padded(width), 5}, factor.data(), {&is.at(0, 0, 1, 0), dtype_of<S>, 2 * width, 5, width});
      EXPECT_TRUE(same_bits(is.memory, wanted.memory)) << width;
    }
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
