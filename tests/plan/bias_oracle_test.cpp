// SPDX-License-Identifier: Apache-2.0
// Buckets of T5 and DeBERTa at every distance to 1,000,000, slopes and diagonals, against MPFR.
#include <gtest/gtest.h>
#include <mpfr.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "phasor/bias.hpp"
#include "plan/mpfr_real.hpp"

namespace phasor::test {
namespace {

using oracle::MpfrReal;

constexpr std::int64_t farthest = 1000000;
// 192 bits: what two logarithms, a quotient and a product lose is below 2^-170, and no two numbers of these formulas that differ are
// that close (the numbers are logarithms of whole numbers below 2^20).
constexpr mpfr_prec_t bits = 192;

/// ln(a) of every distance, once.
class Logarithms {
 public:
  Logarithms() : list_(farthest + 1) {
    for (std::int64_t a = 0; a <= farthest; ++a) {
      mpfr_ptr log = &list_[static_cast<std::size_t>(a)];
      mpfr_init2(log, bits);
      mpfr_set_sj(log, std::max<std::int64_t>(a, 1), MPFR_RNDN);
      mpfr_log(log, log, MPFR_RNDN);
    }
  }
  Logarithms(const Logarithms&) = delete;
  Logarithms& operator=(const Logarithms&) = delete;
  ~Logarithms() {
    for (__mpfr_struct& log : list_) mpfr_clear(&log);
  }
  mpfr_srcptr of(std::int64_t a) const { return &list_[static_cast<std::size_t>(a)]; }

 private:
  std::vector<__mpfr_struct> list_;
};
mpfr_srcptr log_of(std::int64_t a) {
  static const Logarithms logarithms;
  return logarithms.of(a);
}

/// ln(a / start) / ln(end / start) n, and where that is a whole number, exactly that.
class LogBins {
 public:
  LogBins(std::int64_t start, std::int64_t end, std::int64_t n) : start_(start) {
    for (auto* x : {&factor_, &x_, &whole_, &gap_}) mpfr_init2(*x, bits);
    mpfr_sub(factor_, log_of(end), log_of(start), MPFR_RNDN);
    mpfr_si_div(factor_, static_cast<long>(n), factor_, MPFR_RNDN);
  }
  ~LogBins() {
    for (auto* x : {&factor_, &x_, &whole_, &gap_}) mpfr_clear(*x);
  }
  LogBins(const LogBins&) = delete;
  LogBins& operator=(const LogBins&) = delete;

  std::int64_t floor_at(std::int64_t a) { return rounded(a, MPFR_RNDD); }
  std::int64_t ceil_at(std::int64_t a) { return rounded(a, MPFR_RNDU); }

 private:
  std::int64_t rounded(std::int64_t a, mpfr_rnd_t way) {
    mpfr_sub(x_, log_of(a), log_of(start_), MPFR_RNDN);
    mpfr_mul(x_, x_, factor_, MPFR_RNDN);
    mpfr_rint(whole_, x_, MPFR_RNDN);
    mpfr_sub(gap_, x_, whole_, MPFR_RNDN);
    const bool is_whole = mpfr_zero_p(gap_) != 0 || mpfr_get_exp(gap_) < -140;
    return static_cast<std::int64_t>(mpfr_get_sj(is_whole ? whole_ : x_, way));
  }

  std::int64_t start_;
  mpfr_t factor_;
  mpfr_t x_;
  mpfr_t whole_;
  mpfr_t gap_;
};

struct Shape {
  std::int64_t buckets;
  std::int64_t max_distance;
};

void expect_t5(const Shape& shape, BucketSides sides) {
  const bool both = sides == BucketSides::both;
  const Result<Bias> bias = Bias::make(T5Buckets{.heads = 1, .buckets = shape.buckets, .max_distance = shape.max_distance, .sides = sides});
  ASSERT_TRUE(bias.ok()) << bias.status().message();
  const std::int64_t n = both ? shape.buckets / 2 : shape.buckets;
  const std::int64_t e = n / 2;
  LogBins bins(e, shape.max_distance, n - e);
  for (std::int64_t a = 0; a <= farthest; ++a) {
    const std::int64_t bucket = a < e ? a : std::min(n - 1, e + bins.floor_at(a));
    ASSERT_EQ(bias->row(a), bucket) << shape.buckets << " " << shape.max_distance << " at " << a;
    ASSERT_EQ(bias->row(-a), a == 0 ? 0 : both ? n + bucket : 0) << shape.buckets << " " << shape.max_distance << " at " << -a;
  }
}

TEST(bias_oracle, t5_buckets_of_both_sides_are_the_logarithm_at_every_distance_to_a_million) {
  for (const Shape& shape : {Shape{32, 128}, {64, 128}, {4, 2}, {6, 1000}, {34, 100}, {320, 800}, {128, 100000}, {32, 1000000}}) {
    expect_t5(shape, BucketSides::both);
  }
}

TEST(bias_oracle, t5_buckets_behind_are_the_logarithm_at_every_distance_to_a_million) {
  for (const Shape& shape : {Shape{32, 128}, {64, 4096}, {2, 2}, {3, 9}, {17, 100}, {320, 161}, {1000, 65536}, {32, 524288}}) {
    expect_t5(shape, BucketSides::behind);
  }
}

TEST(bias_oracle, t5_thresholds_that_are_whole_numbers_belong_to_the_upper_bucket) {
  const Bias bias = *Bias::make(T5Buckets{.heads = 1, .buckets = 32, .max_distance = 128});  // 8 * 16^(j / 8): 8, 16, 32, 64 are whole
  EXPECT_EQ(bias.row(15), 9);
  EXPECT_EQ(bias.row(16), 10);
  EXPECT_EQ(bias.row(31), 11);
  EXPECT_EQ(bias.row(32), 12);
  EXPECT_EQ(bias.row(63), 13);
  EXPECT_EQ(bias.row(64), 14);
  EXPECT_EQ(bias.row(90), 14);
  EXPECT_EQ(bias.row(91), 15);
}

void expect_deberta(const Shape& shape, DebertaReading reading) {
  const Result<Bias> bias =
      Bias::make(DebertaBuckets{.heads = 1, .buckets = shape.buckets, .max_distance = shape.max_distance, .reading = reading});
  ASSERT_TRUE(bias.ok()) << bias.status().message();
  const bool swapped = reading == DebertaReading::hf_swapped;
  const std::int64_t mid = (swapped ? shape.max_distance : shape.buckets) / 2;
  LogBins bins(mid, (swapped ? shape.buckets : shape.max_distance) - 1, mid - 1);
  for (std::int64_t a = 0; a <= farthest; ++a) {
    const std::int64_t d = reading == DebertaReading::microsoft ? std::min(a, shape.max_distance - 1) : a;
    const std::int64_t bucket = d <= mid ? d : mid + bins.ceil_at(d);
    const std::int64_t last = 2 * shape.buckets - 1;
    ASSERT_EQ(bias->row(a), std::clamp<std::int64_t>(bucket + shape.buckets, 0, last))
        << shape.buckets << " " << shape.max_distance << " at " << a;
    ASSERT_EQ(bias->row(-a), std::clamp<std::int64_t>(shape.buckets - bucket, 0, last))
        << shape.buckets << " " << shape.max_distance << " at " << -a;
  }
}

TEST(bias_oracle, deberta_rows_of_every_reading_are_the_logarithm_at_every_distance_to_a_million) {
  for (const DebertaReading reading : {DebertaReading::hf, DebertaReading::microsoft, DebertaReading::hf_swapped}) {
    for (const Shape& shape : {Shape{256, 512}, {9, 20}, {64, 129}, {1024, 100000}}) expect_deberta(shape, reading);
  }
}

TEST(bias_oracle, alibi_slopes_are_the_float64_nearest_to_the_power_of_two) {
  for (std::int64_t heads = 1; heads <= 130; ++heads) {
    const Bias bias = *Bias::make(Alibi{.heads = heads, .max_bias = heads % 3 == 0 ? 8 : 5.3});
    const double max_bias = heads % 3 == 0 ? 8 : 5.3;
    std::int64_t powers = 1;
    while (powers * 2 <= heads) powers *= 2;
    for (std::int64_t h = 0; h < heads; ++h) {
      const auto top = static_cast<double>(h < powers ? h + 1 : 2 * (h - powers) + 1);
      const auto bottom = static_cast<double>(h < powers ? powers : 2 * powers);
      const MpfrReal slope = oracle::power(MpfrReal(2), MpfrReal(-max_bias) * MpfrReal(top) / MpfrReal(bottom));
      EXPECT_EQ(bias.slopes()[static_cast<std::size_t>(h)], slope.nearest_double()) << heads << " " << h;
    }
  }
}

/// Distance from the truth in ulps of it.
double ulps(double is, const MpfrReal& truth) {
  const double nearest = std::fabs(truth.nearest_double());
  const double ulp = std::nextafter(nearest, HUGE_VAL) - nearest;
  return std::fabs((MpfrReal(is) - truth).nearest_double()) / ulp;
}

std::vector<double> diagonal_of(const BiasSpec& spec, std::int64_t heads, std::int64_t first, std::int64_t count) {
  std::vector<double> out(static_cast<std::size_t>(heads * count));
  EXPECT_TRUE(Bias::make(spec)->diagonal(view(out.data(), {1, heads, 1, count}), first).ok());
  return out;
}

TEST(bias_oracle, kerple_is_rounded_once_at_any_distance) {
  const Kerple log{KerpleKind::logarithmic, {0.3, 1.7, 12}, {1e-9, 0.37, 1e5}};
  const Kerple power{KerpleKind::power, {0.3, 1.7, 12}, {0.01, 1.37, 2}};
  for (const std::int64_t first : {std::int64_t{1}, std::int64_t{100000}, std::int64_t{1} << 52}) {
    const std::vector<double> logs = diagonal_of(log, 3, first, 500);
    const std::vector<double> powers = diagonal_of(power, 3, first, 500);
    for (std::size_t i = 0; i < logs.size(); ++i) {
      const std::size_t h = i / 500;
      const MpfrReal a = MpfrReal::of_integer(first + static_cast<std::int64_t>(i % 500));
      EXPECT_LE(ulps(logs[i], MpfrReal(-log.r1[h]) * oracle::log_of(MpfrReal(1) + MpfrReal(log.r2[h]) * a)), 0.501);
      EXPECT_LE(ulps(powers[i], MpfrReal(-power.r1[h]) * oracle::power(a, MpfrReal(power.r2[h]))), 0.501);
    }
  }
}

TEST(bias_oracle, sandwich_is_the_exact_sum_of_cosines_at_any_distance) {
  for (const std::int64_t first : {std::int64_t{0}, std::int64_t{1000000}, -(std::int64_t{1} << 60)}) {
    const std::vector<double> values = diagonal_of(Sandwich{.heads = 5}, 5, first, 20);
    for (std::int64_t i = 0; i < 20; ++i) {
      MpfrReal sum = 0;
      for (std::int64_t pair = 0; pair < 64; ++pair) {
        const MpfrReal frequency = oracle::power(MpfrReal(10000), MpfrReal(static_cast<double>(-2 * pair)) / MpfrReal(128));
        sum = sum + oracle::cos_of(MpfrReal::of_integer(first + i) * frequency);
      }
      for (std::int64_t h = 0; h < 5; ++h) {
        const MpfrReal truth = sum * MpfrReal(5) / MpfrReal(static_cast<double>(8 * (h + 1)));
        EXPECT_LE(ulps(values[static_cast<std::size_t>(h * 20 + i)], truth), 0.501) << first + i << " " << h;
      }
    }
  }
}

}  // namespace
}  // namespace phasor::test
