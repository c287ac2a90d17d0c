// SPDX-License-Identifier: Apache-2.0
// Writing and adding sinusoids: every dtype and stride, in place and out of place, slices, zero rows, the seed's table, the gradient.
#include "additive_reference.hpp"

namespace phasor::test {
namespace {

class Additive : public EveryTarget {};

/// The encoding as float32 (float64 for doubles), (1, T, 1, D), by `fill` on the scalar target: checked against MPFR elsewhere.
template <class V>
Tensor<V> rows_of(const Sinusoidal& sinusoidal, const Positions& at, std::int64_t batch, std::int64_t tokens) {
  const OnTarget scalar("scalar");
  Tensor<V> rows({batch, tokens, 1, sinusoidal.spec().width}, 1);
  EXPECT_TRUE(sinusoidal.fill(rows.view(), at).ok());
  return rows;
}

bool is_kept(const SinusoidalSpec& spec, std::int64_t channel, std::int64_t position) {
  return role_of(spec, channel).kind == ChannelRole::Kind::zero || spec.zero_position == position;
}

/// x + rows by the definition: widen, one addition, one rounding; what has no encoding keeps its bits.
template <class T>
void add_reference(const SinusoidalSpec& spec, const Tensor<T>& in, const Tensor<typename Element<T>::Value>& rows, Tensor<T>& out,
                   std::int64_t first_position) {
  const Tensor<T> from = in;
  from.each_head([&](std::int64_t b, std::int64_t t, std::int64_t h) {
    for (std::int64_t c = 0; c < spec.width; ++c) {
      const T x = from.at(b, t, h, c);
      const auto sum = Element<T>::widen(x) + rows.at(rows.shape()[0] == 1 ? 0 : b, t, 0, c);
      out.at(b, t, h, c) = is_kept(spec, c, first_position + t) ? x : Element<T>::narrow(sum);
    }
  });
}

TEST_F(Additive, adding_is_one_addition_and_one_rounding_in_every_dtype_and_stride) {
  on_every_target([] {
    for_each_dtype([](auto tag) {
      using T = typename decltype(tag)::type;
      for (const NamedSpec& variant : variants()) {
        SCOPED_TRACE(variant.name);
        const std::int64_t d = variant.spec.width;
        const Sinusoidal sinusoidal = *Sinusoidal::make(variant.spec);
        const auto rows = rows_of<typename Element<T>::Value>(sinusoidal, positions_from(-2), 1, 35);
        Tensor<T> x({3, 35, 1, d}, {d + 3, 3 * (d + 3), 0, 1}, 5);  // tokens outside, gaps between
        x.with_numbers(0, d);
        Tensor<T> wanted = x;
        add_reference(variant.spec, x, rows, wanted, -2);
        Tensor<T> out({3, 35, 1, d}, {35 * (d + 1), d + 1, 7, 1}, 6);
        Tensor<T> wanted_out = out;
        add_reference(variant.spec, x, rows, wanted_out, -2);
        ASSERT_TRUE(sinusoidal.add({x.view(), out.view()}, positions_from(-2)).ok());
        EXPECT_TRUE(same_numbers(out.memory, wanted_out.memory));
        ASSERT_TRUE(sinusoidal.add(x.view(), positions_from(-2)).ok());
        EXPECT_TRUE(same_numbers(x.memory, wanted.memory));
      }
    });
  });
}

TEST_F(Additive, every_batch_row_may_have_positions_of_its_own) {
  on_every_target([] {
    const SinusoidalSpec spec = {.width = 22, .order = SinusoidOrder::sin_cos, .axis_widths = {10, 12}};
    const Sinusoidal sinusoidal = *Sinusoidal::make(spec);
    std::vector<std::int32_t> list;
    for (int i = 0; i < 2 * 2 * 5; ++i) list.push_back(i * i - 7);
    Tensor<float> x({2, 5, 1, 22}, 1);
    x.with_numbers(0, 22);
    Tensor<float> wanted = x;
    for (std::int64_t b = 0; b < 2; ++b) {
      std::vector<std::int64_t> row;
      for (std::int64_t a = 0; a < 2; ++a) {
        for (std::int64_t t = 0; t < 5; ++t) row.push_back(list[static_cast<std::size_t>(a * 10 + b * 5 + t)]);
      }
      const Tensor<float> rows = rows_of<float>(sinusoidal, positions(row.data(), 2, 1, 5), 1, 5);
      for (std::int64_t i = 0; i < 5 * 22; ++i) wanted.at(b, i / 22, 0, i % 22) += rows.at(0, i / 22, 0, i % 22);
    }
    ASSERT_TRUE(sinusoidal.add(x.view(), positions(list.data(), 2, 2, 5)).ok());
    EXPECT_TRUE(same_bits(x.memory, wanted.memory));
  });
}

TEST_F(Additive, f16_and_bf16_rows_are_the_float32_ones_rounded) {
  on_every_target([] {
    for (const NamedSpec& variant : variants()) {
      SCOPED_TRACE(variant.name);
      const Sinusoidal sinusoidal = *Sinusoidal::make(variant.spec);
      const Tensor<float> rows = rows_of<float>(sinusoidal, positions_from(3), 1, 9);
      Tensor<Float16> half({1, 9, 1, variant.spec.width}, 1);
      Tensor<BFloat16> brain({1, 9, 1, variant.spec.width}, 1);
      ASSERT_TRUE(sinusoidal.fill(half.view(), positions_from(3)).ok());
      ASSERT_TRUE(sinusoidal.fill(brain.view(), positions_from(3)).ok());
      for (std::int64_t i = 0; i < 9 * variant.spec.width; ++i) {
        const std::int64_t t = i / variant.spec.width;
        const std::int64_t c = i % variant.spec.width;
        EXPECT_EQ(half.at(0, t, 0, c).bits, Element<Float16>::narrow(rows.at(0, t, 0, c)).bits);
        EXPECT_EQ(brain.at(0, t, 0, c).bits, Element<BFloat16>::narrow(rows.at(0, t, 0, c)).bits);
      }
    }
  });
}

TEST_F(Additive, filling_a_slice_of_a_wider_tensor_concatenates) {
  on_every_target([] {
    const Sinusoidal sinusoidal = *Sinusoidal::make({.width = 6});
    Tensor<float> both({2, 3, 1, 11}, 1);
    both.with_numbers(0, 11);
    Tensor<float> wanted = both;
    const Tensor<float> rows = rows_of<float>(sinusoidal, positions_from(0), 1, 3);
    for (std::int64_t i = 0; i < 2 * 3 * 6; ++i) wanted.at(i / 18, i / 6 % 3, 0, 5 + i % 6) = rows.at(0, i / 6 % 3, 0, i % 6);
    TensorView slice = both.view();
    slice.data = static_cast<float*>(slice.data) + 5;
    slice.shape[3] = 6;
    ASSERT_TRUE(sinusoidal.fill(slice, positions_from(0)).ok());
    EXPECT_TRUE(same_bits(both.memory, wanted.memory));
  });
}

TEST_F(Additive, a_zero_position_and_a_zero_channel_keep_every_bit_of_x) {
  on_every_target([] {
    const Sinusoidal sinusoidal = *Sinusoidal::make({.width = 9, .order = SinusoidOrder::sin_cos, .zero_position = 1});
    const std::vector<std::int64_t> list = {1, 4, 1};
    Tensor<float> x({1, 3, 1, 9}, 77);  // odd bits: NaN with payloads among them
    const Tensor<float> before = x;
    ASSERT_TRUE(sinusoidal.add(x.view(), positions(list.data(), 3)).ok());
    for (std::int64_t c = 0; c < 9; ++c) {
      for (const std::int64_t t : {0, 2}) EXPECT_EQ(Element<float>::bits(x.at(0, t, 0, c)), Element<float>::bits(before.at(0, t, 0, c)));
    }
    EXPECT_EQ(Element<float>::bits(x.at(0, 1, 0, 8)), Element<float>::bits(before.at(0, 1, 0, 8)));
    const std::vector<double> fractions = {1, 1.5, 4};
    Tensor<float> rows({1, 3, 1, 9}, 7);
    ASSERT_TRUE(sinusoidal.fill(rows.view(), positions(fractions.data(), 3)).ok());
    for (std::int64_t c = 0; c < 9; ++c) EXPECT_EQ(rows.at(0, 0, 0, c), 0);
    EXPECT_NE(rows.at(0, 1, 0, 0), 0);
  });
}

TEST_F(Additive, an_amplitude_of_the_call_replaces_the_one_of_the_spec) {
  on_every_target([] {
    const Sinusoidal one = *Sinusoidal::make({.width = 12, .amplitude = 3});
    const Sinusoidal other = *Sinusoidal::make({.width = 12, .amplitude = -0.3});
    Tensor<float> a({1, 40, 1, 12}, 1);
    Tensor<float> b = a;
    ASSERT_TRUE(one.fill(a.view(), positions_from(9), {.amplitude = -0.3}).ok());
    ASSERT_TRUE(other.fill(b.view(), positions_from(9)).ok());
    EXPECT_TRUE(same_bits(a.memory, b.memory));
  });
}

TEST_F(Additive, the_gradient_of_the_amplitude_is_the_difference_of_the_loss) {
  for (const NamedSpec& variant : variants()) {
    SCOPED_TRACE(variant.name);
    const Sinusoidal sinusoidal = *Sinusoidal::make(variant.spec);
    const std::int64_t d = variant.spec.width;
    Tensor<double> gradient({2, 5, 1, d}, {5 * (d + 2), d + 2, 1, 1}, 1);
    gradient.with_numbers(0, d);
    // loss(a) = sum of gradient times encoding is linear in a: its difference quotient is the derivative.
    const auto loss = [&](double amplitude) {
      Tensor<double> rows({2, 5, 1, d}, 1);
      EXPECT_TRUE(sinusoidal.fill(rows.view(), positions_from(2), {.amplitude = amplitude}).ok());
      long double sum = 0;
      for (std::int64_t i = 0; i < 10 * d; ++i) {
        sum += static_cast<long double>(rows.at(i / d / 5, i / d % 5, 0, i % d)) * gradient.at(i / d / 5, i / d % 5, 0, i % d);
      }
      return static_cast<double>(sum);
    };
    const Result<double> is = sinusoidal.amplitude_gradient(gradient.view(), positions_from(2));
    ASSERT_TRUE(is.ok());
    EXPECT_NEAR(*is, (loss(3) - loss(1)) / 2, 0x1p-40);
  }
}

/// The table of seed 004, positions 0 to 10, d = 8, as printed there for 0 to 5 and with true figures for the rest.
TEST_F(Additive, the_encodings_of_seed_004_for_8_channels) {
  const double table[11][8] = {{0, 1, 0, 1, 0, 1, 0, 1},
                               {0.841, 0.540, 0.100, 0.995, 0.010, 1.000, 0.001, 1.000},
                               {0.909, -0.416, 0.199, 0.980, 0.020, 1.000, 0.002, 1.000},
                               {0.141, -0.990, 0.296, 0.955, 0.030, 1.000, 0.003, 1.000},
                               {-0.757, -0.654, 0.389, 0.921, 0.040, 0.999, 0.004, 1.000},
                               {-0.959, 0.284, 0.479, 0.878, 0.050, 0.999, 0.005, 1.000},
                               {-0.279, 0.960, 0.565, 0.825, 0.060, 0.998, 0.006, 1.000},
                               {0.657, 0.754, 0.644, 0.765, 0.070, 0.998, 0.007, 1.000},
                               {0.989, -0.146, 0.717, 0.697, 0.080, 0.997, 0.008, 1.000},
                               {0.412, -0.911, 0.783, 0.622, 0.090, 0.996, 0.009, 1.000},
                               {-0.544, -0.839, 0.841, 0.540, 0.100, 0.995, 0.010, 1.000}};
  on_every_target([&] {
    const Sinusoidal sinusoidal = *Sinusoidal::make({.width = 8});
    Tensor<double> rows({1, 11, 1, 8}, 1);
    ASSERT_TRUE(sinusoidal.fill(rows.view(), positions_from(0)).ok());
    for (std::int64_t i = 0; i < 88; ++i) EXPECT_NEAR(rows.at(0, i / 8, 0, i % 8), table[i / 8][i % 8], 0.0005001) << i;
  });
}

TEST_F(Additive, a_position_that_is_none_gives_nan_on_its_axis_only) {
  on_every_target([] {
    const Sinusoidal sinusoidal = *Sinusoidal::make({.width = 8, .axis_widths = {4, 4}});
    const std::vector<double> list = {std::nan(""), 1, 2, 0x1p63};
    Tensor<float> rows({1, 2, 1, 8}, 1);
    ASSERT_TRUE(sinusoidal.fill(rows.view(), positions(list.data(), 2, 1, 2)).ok());
    for (std::int64_t c = 0; c < 8; ++c) {
      EXPECT_EQ(std::isnan(rows.at(0, 0, 0, c)), c < 4);
      EXPECT_EQ(std::isnan(rows.at(0, 1, 0, c)), c >= 4);
    }
  });
}

}  // namespace
}  // namespace phasor::test
