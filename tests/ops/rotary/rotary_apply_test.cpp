// SPDX-License-Identifier: Apache-2.0
// The rotation against the reference, bit for bit: every dtype, pairing, width, offset, sense and direction, in place and out of place.
#include <cmath>

#include "ops/rotary/rotary_call.hpp"
#include "tolerance.hpp"

namespace phasor::test {
namespace {

using RotaryApply = EveryTarget;

constexpr Pairing pairings[] = {Pairing::half, Pairing::interleaved};
constexpr Direction directions[] = {Direction::forward, Direction::inverse, Direction::transpose};

/// Spec of a head wider than what is rotated, at an odd offset.
RotarySpec partial(std::int64_t width, std::int64_t before, std::int64_t after) {
  RotarySpec spec;
  spec.head_dim = before + width + after;
  spec.rotary_width = width;
  spec.rotary_offset = before;
  return spec;
}

/// An amplitude that is not 1, as YaRN has.
RotarySpec with_amplitude(RotarySpec spec) {
  GivenFactors scaling;
  scaling.amplitude = 1.2079441541679836;
  for (std::int64_t i = 0; i < spec.rotary_width / 2; ++i) scaling.factors.push_back(1 + 0.5 * static_cast<double>(i));
  spec.scaling = scaling;
  return spec;
}

template <class Body>
void for_each_pairing(RotarySpec spec, Body body) {
  for (const Pairing read : pairings) {
    for (const Pairing write : pairings) {
      SCOPED_TRACE(std::string("reads ") + (read == Pairing::half ? "half" : "interleaved") + ", writes " +
                   (write == Pairing::half ? "half" : "interleaved"));
      spec.pairing = read;
      spec.output_pairing = write;
      body(spec);
    }
  }
}

TEST_F(RotaryApply, every_dtype_pairing_and_width_is_the_reference_bit_for_bit) {
  on_every_target([] {
    for (const std::int64_t width : {2, 6, 34, 40, 48, 64, 72, 80, 96, 128, 130, 192, 256}) {
      SCOPED_TRACE(width);
      for_each_pairing(partial(width, 0, 0), [&](const RotarySpec& spec) {
        for_each_dtype(
            [&](auto tag) { check_apply<typename decltype(tag)::type>({spec, {1, 5, 3, width}, {positions_from(99998), 1, 5}}); });
      });
    }
  });
}

TEST_F(RotaryApply, a_rotation_of_more_pairs_than_a_block_holds_is_the_reference) {
  on_every_target([] {
    for_each_pairing(partial(4098, 1, 2), [](const RotarySpec& spec) {
      for_each_dtype([&](auto tag) { check_apply<typename decltype(tag)::type>({spec, {1, 3, 1, 4101}, {positions_from(7), 1, 3}}); });
    });
  });
}

TEST_F(RotaryApply, the_widest_rotation_in_place_across_pairings_is_the_reference) {
  on_every_target([] {
    for_each_pairing(partial(4096, 0, 0),
                     [](const RotarySpec& spec) { check_apply<BFloat16>({spec, {1, 1, 2, 4096}, {positions_from(-3), 1, 1}}); });
  });
}

TEST_F(RotaryApply, a_partial_width_at_any_offset_leaves_the_rest_bit_for_bit) {
  on_every_target([] {
    for (const auto& [width, before, after] : {std::array<std::int64_t, 3>{34, 3, 0}, {40, 0, 7}, {64, 13, 6}, {2, 1, 1}, {96, 31, 1}}) {
      SCOPED_TRACE(width);
      for_each_pairing(partial(width, before, after), [&](const RotarySpec& spec) {
        for_each_dtype(
            [&](auto tag) { check_apply<typename decltype(tag)::type>({spec, {2, 3, 7, spec.head_dim}, {positions_from(1), 1, 3}}); });
      });
    }
  });
}

TEST_F(RotaryApply, senses_and_directions_are_the_reference) {
  on_every_target([] {
    for (const Sense sense : {Sense::counterclockwise, Sense::clockwise}) {
      for (const Direction direction : directions) {
        SCOPED_TRACE(testing::Message() << "sense " << static_cast<int>(sense) << ", direction " << static_cast<int>(direction));
        RotarySpec with_sense = with_amplitude(partial(34, 2, 1));
        with_sense.sense = sense;
        for_each_pairing(with_sense, [&](const RotarySpec& spec) {
          for_each_dtype([&](auto tag) {
            check_apply<typename decltype(tag)::type>({spec, {1, 3, 3, spec.head_dim}, {positions_from(4097), 1, 3}, direction});
          });
        });
      }
    }
  });
}

TEST_F(RotaryApply, clockwise_is_the_rotation_of_the_negated_position) {
  on_every_target([] {
    for_each_dtype([](auto tag) {
      using T = typename decltype(tag)::type;
      RotarySpec spec = partial(48, 0, 0);
      Tensor<T> a({1, 1, 3, 48}, 5);
      a.with_numbers(0, 48);
      Tensor<T> b = a;
      ASSERT_TRUE(make_rotary(spec).apply(a.view(), positions_from(-1234567)).ok());
      spec.sense = Sense::clockwise;
      ASSERT_TRUE(make_rotary(spec).apply(b.view(), positions_from(1234567)).ok());
      EXPECT_TRUE(same_bits(a.memory, b.memory));
    });
  });
}

TEST_F(RotaryApply, the_tables_of_a_direction_are_the_forward_ones_with_the_sine_negated) {
  const Rotary rotary = make_rotary(with_amplitude(partial(34, 0, 0)));
  const Where where = {positions_from(100), 1, 5};
  const auto forward = rows_of<float>(rotary, where);
  const auto truth = rows_of<double>(rotary, where);
  const auto transpose = rows_of<float>(rotary, where, Direction::transpose);
  const auto inverse = rows_of<float>(rotary, where, Direction::inverse);
  const long double square = static_cast<long double>(rotary.amplitude()) * rotary.amplitude();
  EXPECT_TRUE(same_bits(transpose.cos[0], forward.cos[0]));
  for (std::size_t i = 0; i < forward.sin[0].size(); ++i) {
    EXPECT_EQ(transpose.sin[0][i], -forward.sin[0][i]);
    EXPECT_LE(reference::ulps_apart(inverse.cos[0][i], truth.cos[0][i] / square), row_ulps);
    EXPECT_LE(reference::ulps_apart(inverse.sin[0][i], -truth.sin[0][i] / square), row_ulps);
  }
}

/// Length of pair i of a head, in double.
template <class T>
double norm_of_pair(const std::vector<T>& head, const reference::Geometry& g, Pairing pairing, std::int64_t i) {
  const auto value = [&](int lane) {
    return static_cast<double>(Element<T>::widen(head[static_cast<std::size_t>(g.offset + reference::channel(pairing, g.width, i, lane))]));
  };
  return std::hypot(value(0), value(1));
}

template <class T>
void check_round_trip(const RotarySpec& spec) {
  const Rotary rotary = make_rotary(spec);
  const reference::Geometry g = geometry_of(spec);
  Tensor<T> x({1, 3, 3, spec.head_dim}, 6);
  x.with_numbers(g.offset, g.width);
  const Tensor<T> before = x;
  ASSERT_TRUE(rotary.apply(x.view(), positions_from(1 << 20)).ok());
  ASSERT_TRUE(rotary.apply(x.view(), positions_from(1 << 20), {.direction = Direction::inverse}).ok());
  const Tolerance tolerance = tolerance_of(dtype_of<T>);
  before.each_head([&](std::int64_t b, std::int64_t t, std::int64_t h) {
    for (std::int64_t i = 0; i < g.width / 2; ++i) {
      const double bound = tolerance.round_trip * tolerance.epsilon * norm_of_pair(before.head(b, t, h), g, g.read, i);
      for (const int lane : {0, 1}) {
        const std::int64_t d = g.offset + reference::channel(g.read, g.width, i, lane);
        EXPECT_NEAR(Element<T>::widen(x.at(b, t, h, d)), Element<T>::widen(before.at(b, t, h, d)), bound);
      }
    }
  });
}

TEST_F(RotaryApply, inverse_undoes_forward_whatever_the_amplitude) {
  on_every_target([] {
    for_each_pairing(with_amplitude(partial(40, 3, 2)), [](const RotarySpec& spec) {
      for_each_dtype([&](auto tag) { check_round_trip<typename decltype(tag)::type>(spec); });
    });
  });
}

/// Sum over the rotated channels of the products of two heads, in double.
template <class T>
double dot(const std::vector<T>& a, const std::vector<T>& b, const reference::Geometry& g) {
  double sum = 0;
  for (std::int64_t d = g.offset; d < g.offset + g.width; ++d) {
    const std::size_t i = static_cast<std::size_t>(d);
    sum += static_cast<double>(Element<T>::widen(a[i])) * static_cast<double>(Element<T>::widen(b[i]));
  }
  return sum;
}

template <class T>
void check_adjoint(const RotarySpec& spec) {
  const Rotary rotary = make_rotary(spec);
  const reference::Geometry g = geometry_of(spec);
  const Extents shape = {1, 1, 1, spec.head_dim};
  Tensor<T> x(shape, 7);
  Tensor<T> y(shape, 8);
  const std::vector<T> x_before = x.with_numbers(g.offset, g.width, 9).head(0, 0, 0);
  const std::vector<T> y_before = y.with_numbers(g.offset, g.width, 10).head(0, 0, 0);
  ASSERT_TRUE(rotary.apply(x.view(), positions_from(31337)).ok());
  ASSERT_TRUE(rotary.apply(y.view(), positions_from(31337), {.direction = Direction::transpose}).ok());
  double size = 0;
  for (std::int64_t i = 0; i < g.width / 2; ++i) size += norm_of_pair(x_before, g, g.read, i) * norm_of_pair(y_before, g, g.write, i);
  const Tolerance tolerance = tolerance_of(dtype_of<T>);
  EXPECT_NEAR(dot(x.head(0, 0, 0), y_before, g), dot(x_before, y.head(0, 0, 0), g),
              tolerance.round_trip * tolerance.epsilon * rotary.amplitude() * size);
}

TEST_F(RotaryApply, transpose_is_the_adjoint_whatever_the_amplitude) {
  on_every_target([] {
    for_each_pairing(with_amplitude(partial(72, 1, 4)),
                     [](const RotarySpec& spec) { for_each_dtype([&](auto tag) { check_adjoint<typename decltype(tag)::type>(spec); }); });
  });
}

TEST_F(RotaryApply, inverse_and_transpose_are_the_same_bits_when_the_amplitude_is_1) {
  on_every_target([] {
    for_each_dtype([](auto tag) {
      using T = typename decltype(tag)::type;
      const Rotary rotary = make_rotary(partial(80, 0, 0));
      Tensor<T> a({1, 3, 1, 80}, 11);
      a.with_numbers(0, 80);
      Tensor<T> b = a;
      ASSERT_TRUE(rotary.apply(a.view(), positions_from(55), {.direction = Direction::inverse}).ok());
      ASSERT_TRUE(rotary.apply(b.view(), positions_from(55), {.direction = Direction::transpose}).ok());
      EXPECT_TRUE(same_bits(a.memory, b.memory));
    });
  });
}

TEST_F(RotaryApply, nan_and_infinity_in_the_data_pass_as_arithmetic_has_them) {
  on_every_target([] {
    for_each_pairing(partial(38, 1, 1), [](const RotarySpec& spec) {
      for_each_dtype([&](auto tag) {
        using T = typename decltype(tag)::type;
        const Rotary rotary = make_rotary(spec);
        Tensor<T> x({1, 3, 3, 40}, 12);  // any bits everywhere
        x.at(0, 0, 0, 5) = Element<T>::narrow(std::numeric_limits<float>::infinity());
        x.at(0, 1, 1, 6) = Element<T>::narrow(-std::numeric_limits<float>::infinity());
        Tensor<T> wanted = x;
        const auto rows = rows_of<typename Element<T>::Value>(rotary, {positions_from(5), 1, 3});
        rotate_reference(wanted, wanted, geometry_of(spec), rows);
        ASSERT_TRUE(rotary.apply(x.view(), positions_from(5)).ok());
        EXPECT_TRUE(same_numbers(x.memory, wanted.memory));
      });
    });
  });
}

}  // namespace
}  // namespace phasor::test
