// SPDX-License-Identifier: Apache-2.0
// The worked examples of the documents this project began with (seeds 002, 003 and 004), number by number.
#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "laws/tensor.hpp"
#include "laws/tolerance.hpp"
#include "phasor/phasor.hpp"

namespace phasor::laws {
namespace {

#include "golden/seed_002.inc"

constexpr std::int64_t kPairs = 4;
constexpr std::int64_t kTablePositions = 11;
constexpr Extents kQueryShape = {2, 5, 2, 8};
constexpr Extents kKeyShape = {2, 5, 1, 8};

Rotary interleaved(std::int64_t head_dim) { return *Rotary::make({.head_dim = head_dim, .pairing = Pairing::interleaved}); }

/// A number as a document prints it: how many decimals it shows is how well it is known.
struct Printed {
  explicit Printed(const char* text) : value(std::strtod(text, nullptr)) {
    const char* point = std::strchr(text, '.');
    error = printed_error(point == nullptr ? 0 : static_cast<int>(std::strlen(point + 1)));
  }
  double value;
  double error;
};

/// cos and sin of positions 0, 1, ..., one value per pair.
template <class T>
struct Rows {
  std::vector<T> cos;
  std::vector<T> sin;
};

template <class T>
Rows<T> rows_of(const Rotary& rotary, std::int64_t tokens, std::int64_t offset = 0) {
  const Extents shape = {1, tokens, 1, rotary.rotary_width() / 2};
  const auto size = static_cast<std::size_t>(shape[1] * shape[3]);
  Rows<T> rows{std::vector<T>(size), std::vector<T>(size)};
  const Status status = rotary.cos_sin(positions_from(offset), view(rows.cos.data(), shape), view(rows.sin.data(), shape));
  EXPECT_TRUE(status.ok()) << status.message();
  return rows;
}

/// 0, 1, 2, ... in order: q and k of seed 002. 159 fits the 8 bits of bf16.
Tensor counted(DType dtype, const Extents& shape) {
  Tensor x(dtype, shape);
  double next = 0;
  for_each_head(shape, [&](const Index& head) {
    for (std::int64_t d = 0; d < shape[3]; ++d) x.set(channel(head, d), next++);
  });
  return x;
}

/// reshape(..., P, 2), then view_as_complex.
std::vector<std::complex<double>> as_complex(const Tensor& x) {
  std::vector<std::complex<double>> z;
  for_each_head(x.shape(), [&](const Index& head) {
    for (std::int64_t pair = 0; pair < x.shape()[3] / 2; ++pair) z.emplace_back(x[channel(head, 2 * pair)], x[channel(head, 2 * pair + 1)]);
  });
  return z;
}

/// Element (b, t, h, pair) of (B, T, H, P).
std::size_t flat(const Extents& shape, const Index& at) {
  return static_cast<std::size_t>(((at[0] * shape[1] + at[1]) * shape[2] + at[2]) * (shape[3] / 2) + at[3]);
}

struct QueryKey {
  Tensor q;
  Tensor k;
};

QueryKey example_rotated(DType dtype) {
  QueryKey x = {counted(dtype, kQueryShape), counted(dtype, kKeyShape)};
  const Status status = interleaved(8).apply(x.q.view(), x.k.view(), positions_from(0));
  EXPECT_TRUE(status.ok()) << status.message();
  return x;
}

template <class F>
void on_every_target(F test) {
  for (const std::string_view target : targets()) {
    SCOPED_TRACE(std::string(target));
    ASSERT_TRUE(force_target(target).ok());
    test();
  }
  ASSERT_TRUE(force_target("").ok());
}

// ---- Seed 002: grouped queries, (2, 5, 2, 8) and (2, 5, 1, 8) ----

TEST(Seed002, frequencies_are_1_and_a_tenth_and_a_hundredth_and_a_thousandth) {
  EXPECT_EQ(interleaved(8).frequencies(), (std::vector<double>{1, 0.1, 0.01, 0.001}));
  EXPECT_EQ(interleaved(8).frequencies(), std::vector<double>(std::begin(kFrequencies), std::end(kFrequencies)));
}

TEST(Seed002, the_outer_product_of_positions_and_frequencies_is_the_angles) {
  const std::vector<double> frequencies = interleaved(8).frequencies();
  for (std::int64_t position = 0; position < kTablePositions; ++position) {
    for (std::int64_t pair = 0; pair < kPairs; ++pair) {
      const double wanted = kAngles[position * kPairs + pair];
      const double angle = static_cast<double>(position) * frequencies[static_cast<std::size_t>(pair)];
      EXPECT_LE(std::fabs(angle - wanted), kTwiceRounded * wanted) << position << ", " << pair;
    }
  }
}

TEST(Seed002, the_complex_table_is_the_nearest_in_f64_and_in_f32) {
  on_every_target([] {
    const Rows<double> rows = rows_of<double>(interleaved(8), kTablePositions);
    const Rows<float> rows_f32 = rows_of<float>(interleaved(8), kTablePositions);
    for (std::size_t i = 0; i < rows.cos.size(); ++i) {
      EXPECT_EQ(rows.cos[i], kCos[i]) << i;
      EXPECT_EQ(rows.sin[i], kSin[i]) << i;
      EXPECT_EQ(rows_f32.cos[i], static_cast<float>(kCos[i])) << i;
      EXPECT_EQ(rows_f32.sin[i], static_cast<float>(kSin[i])) << i;
    }
  });
}

TEST(Seed002, reshaped_to_complex_the_element_at_0_1_1_2_is_28_plus_29i) {
  const std::vector<std::complex<double>> q = as_complex(counted(DType::f32, kQueryShape));
  const std::vector<std::complex<double>> k = as_complex(counted(DType::f32, kKeyShape));
  ASSERT_EQ(q.size(), 2U * 5 * 2 * 4);
  ASSERT_EQ(k.size(), 2U * 5 * 1 * 4);
  EXPECT_EQ(q[flat(kQueryShape, {0, 1, 1, 2})], std::complex<double>(28, 29));
  EXPECT_EQ(k[flat(kKeyShape, {1, 4, 0, 3})], std::complex<double>(78, 79));
}

/// The table as (1, 5, 1, P), times x as (B, 5, H, P), is what apply writes, flattened: bit for bit in f64.
void check_product(const Tensor& x, const Tensor& y) {
  const Rows<double> rows = rows_of<double>(interleaved(8), x.shape()[1]);
  const std::vector<std::complex<double>> in = as_complex(x);
  const std::vector<std::complex<double>> out = as_complex(y);
  for_each_head(x.shape(), [&](const Index& head) {
    for (std::int64_t pair = 0; pair < kPairs; ++pair) {
      const auto row = static_cast<std::size_t>(head[1] * kPairs + pair);
      const std::size_t i = flat(x.shape(), channel(head, pair));
      EXPECT_EQ(in[i] * std::complex<double>(rows.cos[row], rows.sin[row]), out[i]) << i;
    }
  });
}

TEST(Seed002, the_complex_product_flattened_is_what_apply_writes) {
  on_every_target([] {
    const QueryKey y = example_rotated(DType::f64);
    check_product(counted(DType::f64, kQueryShape), y.q);
    check_product(counted(DType::f64, kKeyShape), y.k);
  });
}

/// Every number within the error of a rotation, relative to the norm of its pair, of the nearest float64 to the truth.
void check_output(const Tensor& x, const Tensor& y, const double* wanted) {
  const double error = rotation_error(x.dtype()) + kTable;
  const std::vector<std::complex<double>> in = as_complex(x);
  const std::vector<std::complex<double>> out = as_complex(y);
  for (std::size_t i = 0; i < in.size(); ++i) {
    EXPECT_LE(std::abs(out[i] - std::complex<double>(wanted[2 * i], wanted[2 * i + 1])), error * std::abs(in[i]))
        << name_of(x.dtype()) << " " << i;
  }
}

TEST(Seed002, both_outputs_are_right_as_a_whole_in_every_dtype) {
  on_every_target([] {
    for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
      const QueryKey y = example_rotated(dtype);
      check_output(counted(dtype, kQueryShape), y.q, kQueryOut);
      check_output(counted(dtype, kKeyShape), y.k, kKeyOut);
    }
  });
}

TEST(Seed002, pair_2_at_position_1_turns_28_plus_29i_into_27_7086_plus_29_2785i) {
  const Rows<double> row = rows_of<double>(interleaved(8), 1, 1);
  const Printed cos("0.99995");
  const Printed sin("0.009999833");
  EXPECT_NEAR(row.cos[2], cos.value, cos.error);
  EXPECT_NEAR(row.sin[2], sin.value, sin.error);
  const Printed real("27.7086");
  const Printed imaginary("29.2785");
  on_every_target([&] {
    for (const DType dtype : {DType::f32, DType::f64}) {
      const Tensor q = example_rotated(dtype).q;
      EXPECT_NEAR((q[{0, 1, 1, 4}]), real.value, real.error);
      EXPECT_NEAR((q[{0, 1, 1, 5}]), imaginary.value, imaginary.error);
    }
  });
}

TEST(Seed002, the_token_at_position_0_is_unchanged_bit_for_bit) {
  for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
    const Tensor before = counted(dtype, kKeyShape);
    const Tensor after = example_rotated(dtype).k;
    for (std::int64_t batch = 0; batch < 2; ++batch) {
      for (std::int64_t d = 0; d < 8; ++d) EXPECT_EQ((after.bits({batch, 0, 0, d})), (before.bits({batch, 0, 0, d})));
    }
  }
}

TEST(Seed002, later_tokens_change_and_earlier_pairs_change_more) {
  const std::vector<std::complex<double>> in = as_complex(counted(DType::f64, kKeyShape));
  const std::vector<std::complex<double>> out = as_complex(example_rotated(DType::f64).k);
  const auto change = [&](const Index& at) {
    const std::size_t i = flat(kKeyShape, at);
    return std::abs(out[i] - in[i]) / std::abs(in[i]);
  };
  for (std::int64_t batch = 0; batch < 2; ++batch) {
    for (std::int64_t token = 1; token < 5; ++token) {
      EXPECT_GT(change({batch, token, 0, kPairs - 1}), 0);
      for (std::int64_t pair = 1; pair < kPairs; ++pair) EXPECT_LT(change({batch, token, 0, pair}), change({batch, token, 0, pair - 1}));
    }
  }
}

TEST(Seed002, the_same_position_turns_by_the_same_angle_in_both_samples_and_in_q_and_k) {
  const QueryKey y = example_rotated(DType::f64);
  const std::vector<std::complex<double>> k = as_complex(counted(DType::f64, kKeyShape));
  const std::vector<std::complex<double>> k_out = as_complex(y.k);
  const std::vector<std::complex<double>> q = as_complex(counted(DType::f64, kQueryShape));
  const std::vector<std::complex<double>> q_out = as_complex(y.q);
  // out / in is the same everywhere, multiplied out: two rotations, and two products that are off by less than a rotation each.
  const double error = 4 * rotation_error(DType::f64);
  for (std::int64_t token = 0; token < 5; ++token) {
    for (std::int64_t pair = 0; pair < kPairs; ++pair) {
      const std::size_t first = flat(kKeyShape, {0, token, 0, pair});
      const std::size_t second = flat(kKeyShape, {1, token, 0, pair});
      const std::size_t query = flat(kQueryShape, {1, token, 1, pair});
      EXPECT_LE(std::abs(k_out[second] * k[first] - k_out[first] * k[second]), error * std::abs(k[first] * k[second]));
      EXPECT_LE(std::abs(q_out[query] * k[first] - k_out[first] * q[query]), error * std::abs(k[first] * q[query]));
    }
  }
}

// ---- Seed 004: d = 4, position 2, q = [1, 2, 3, 4]; the tables for d = 8 ----

TEST(Seed004, the_vector_1_2_3_4_at_position_2) {
  const Printed wanted[] = {Printed("-2.2347417"), Printed("0.0770038"), Printed("2.9194054"), Printed("4.0591960")};
  EXPECT_EQ(interleaved(4).frequencies(), (std::vector<double>{1, 0.01}));
  on_every_target([&] {
    for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
      Tensor x(dtype, {1, 1, 1, 4});
      for (std::int64_t d = 0; d < 4; ++d) x.set({0, 0, 0, d}, static_cast<double>(d + 1));
      const std::vector<std::complex<double>> pairs = as_complex(x);
      ASSERT_TRUE(interleaved(4).apply(x.view(), positions_from(2)).ok());
      for (std::int64_t d = 0; d < 4; ++d) {
        const double error = rotation_error(dtype) * std::abs(pairs[static_cast<std::size_t>(d / 2)]);
        EXPECT_NEAR((x[{0, 0, 0, d}]), wanted[d].value, wanted[d].error + error) << name_of(dtype);
      }
    }
  });
}

TEST(Seed004, the_4_by_4_matrix_at_position_2) {
  const Result<Matrix> matrix = rotation_matrix(interleaved(4), 2);
  ASSERT_TRUE(matrix.ok());
  ASSERT_EQ(matrix->rows, 4);
  ASSERT_EQ(matrix->columns, 4);
  const double c0 = kCos[2 * kPairs];
  const double s0 = kSin[2 * kPairs];
  const double c1 = kCos[2 * kPairs + 2];  // a hundredth a position is pair 1 of 4 channels, pair 2 of 8
  const double s1 = kSin[2 * kPairs + 2];
  EXPECT_EQ(matrix->values, (std::vector<double>{c0, -s0, 0, 0, s0, c0, 0, 0, 0, 0, c1, -s1, 0, 0, s1, c1}));
  const char* const printed[] = {"-0.416", "-0.909", "0",   "0",     "0.909", "-0.416", "0",    "0",
                                 "0",      "0",      "1.0", "-0.02", "0",     "0",      "0.02", "1.0"};
  for (std::size_t i = 0; i < matrix->values.size(); ++i)
    EXPECT_NEAR(matrix->values[i], Printed(printed[i]).value, Printed(printed[i]).error) << i;
}

/// As printed, positions 0 to 10 by frequencies 1, 0.1, 0.01, 0.001.
constexpr const char* kPrintedSin[kTablePositions][kPairs] = {
    {"0", "0", "0", "0"},
    {"0.841", "0.0998", "0.0100", "0.0010"},
    {"0.909", "0.1987", "0.0200", "0.0020"},
    {"0.141", "0.2955", "0.0300", "0.0030"},
    {"-0.757", "0.3894", "0.0400", "0.0040"},
    {"-0.959", "0.4794", "0.0500", "0.0050"},
    {"-0.279", "0.5646", "0.0600", "0.0060"},
    {"0.657", "0.6442", "0.0699", "0.0070"},
    {"0.989", "0.7174", "0.0799", "0.0080"},
    {"0.412", "0.7833", "0.0899", "0.0090"},
    {"-0.544", "0.8415", "0.0998", "0.0100"},
};
constexpr const char* kPrintedCos[kTablePositions][kPairs] = {
    {"1", "1", "1", "1"},
    {"0.540", "0.9950", "0.99995", "1.0000"},
    {"-0.416", "0.9801", "0.9998", "1.0000"},
    {"-0.990", "0.9553", "0.9996", "1.0000"},
    {"-0.654", "0.9211", "0.9992", "1.0000"},
    {"0.284", "0.8776", "0.9988", "1.0000"},
    {"0.960", "0.8253", "0.9982", "1.0000"},
    {"0.754", "0.7648", "0.9976", "1.0000"},
    {"-0.146", "0.6967", "0.9968", "1.0000"},
    {"-0.911", "0.6216", "0.9960", "1.0000"},
    {"-0.839", "0.5403", "0.9950", "0.99995"},
};

TEST(Seed004, the_tables_of_sine_and_cosine_for_8_channels) {
  on_every_target([] {
    const Rows<float> rows = rows_of<float>(interleaved(8), kTablePositions);
    for (std::int64_t i = 0; i < kTablePositions * kPairs; ++i) {
      const Printed sin(kPrintedSin[i / kPairs][i % kPairs]);
      const Printed cos(kPrintedCos[i / kPairs][i % kPairs]);
      EXPECT_NEAR(rows.sin[static_cast<std::size_t>(i)], sin.value, sin.error) << i;
      EXPECT_NEAR(rows.cos[static_cast<std::size_t>(i)], cos.value, cos.error) << i;
    }
  });
}

// ---- Seed 003: S(distance), the sum of the cosines of 64 pairs ----

/// S of distances 0, 1, ..., summed in long double.
std::vector<double> decay(std::int64_t distances, std::int64_t first = 0) {
  const Rows<double> rows = rows_of<double>(interleaved(128), distances, first);
  std::vector<double> sums;
  for (std::int64_t distance = 0; distance < distances; ++distance) {
    long double sum = 0;
    for (std::int64_t pair = 0; pair < 64; ++pair) sum += rows.cos[static_cast<std::size_t>(distance * 64 + pair)];
    sums.push_back(static_cast<double>(sum));
  }
  return sums;
}

struct DecayAt {
  std::int64_t distance;
  const char* printed;
};

TEST(Seed003, the_sum_of_cosines_at_each_printed_distance) {
  const DecayAt table[] = {{0, "64"},
                           {1, "62.093683805768"},
                           {10, "42.820022898497"},
                           {100, "30.543454701491"},
                           {1000, "10.177728132211"},
                           {10000, "-1.785201924852"}};
  on_every_target([&] {
    EXPECT_EQ(decay(1)[0], 64);
    for (const DecayAt& at : table) {
      const double sum = decay(1, at.distance)[0];
      EXPECT_NEAR(sum, Printed(at.printed).value, Printed(at.printed).error) << at.distance;
      EXPECT_EQ(decay(1, -at.distance)[0], sum);
    }
  });
}

TEST(Seed003, the_sum_of_cosines_first_rises_from_11_to_12_and_is_first_negative_at_1707) {
  const std::vector<double> sums = decay(1708);
  for (std::size_t distance = 1; distance < 12; ++distance) EXPECT_LT(sums[distance], sums[distance - 1]) << distance;
  EXPECT_GT(sums[12], sums[11]);
  for (std::size_t distance = 0; distance < 1707; ++distance) EXPECT_GT(sums[distance], 0) << distance;
  EXPECT_LT(sums[1707], 0);
}

TEST(Seed003, the_fastest_pair_gives_0_540_at_distance_1_and_the_slowest_frequency_is_1_155e_minus_4) {
  const Printed fastest("0.540");
  EXPECT_NEAR(rows_of<double>(interleaved(128), 1, 1).cos[0], fastest.value, fastest.error);
  const Printed slowest("0.0001155");
  EXPECT_NEAR(interleaved(128).frequencies().back(), slowest.value, slowest.error);
}

}  // namespace
}  // namespace phasor::laws
