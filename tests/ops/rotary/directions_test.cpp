// SPDX-License-Identifier: Apache-2.0
// Given directions (RoPE-Mixed): every pair of every head turns by the sum over the axes of position times frequency.
#include <limits>

#include "ops/rotary/axes_models.hpp"
#include "ops/rotary/rotary_call.hpp"
#include "tolerance.hpp"

namespace phasor::test {
namespace {

using Directions = EveryTarget;

/// `heads` directions for each of `pairs` pairs, of any sign and size, some of them 0.
GivenDirections directions(std::int64_t axes, std::int64_t heads, std::int64_t pairs) {
  Random random(77);
  GivenDirections s{axes, heads, {}};
  for (std::int64_t i = 0; i < axes * heads * pairs; ++i) {
    const double number = random.number();
    s.frequencies.push_back(i % 11 == 3 ? 0 : std::ldexp(number, -static_cast<int>(i % 7)));
  }
  return s;
}

/// The model of one head.
Model model_of_head(const RotarySpec& spec, std::int64_t head) {
  const auto& s = std::get<GivenDirections>(spec.scaling);
  const std::int64_t pairs = spec.rotary_width / 2;
  Model m{"head", spec, s.axes, {}};
  for (std::int64_t i = 0; i < pairs; ++i) {
    Direction4 turns{};
    for (std::int64_t a = 0; a < s.axes; ++a) {
      turns[static_cast<std::size_t>(a)] = s.frequencies[static_cast<std::size_t>((a * s.heads + (s.heads == 1 ? 0 : head)) * pairs + i)];
    }
    m.pairs.push_back(spec.pairing == Pairing::half ? half_pair(2 * pairs, i, turns) : neighbours(i, turns));
  }
  return m;
}

template <class T>
void expect_near_or_same(const Tensor<T>& is, const Tensor<T>& wanted) {
  if constexpr (std::is_same_v<T, double>) {  // long double does not decide the rounding of a float64
    for (std::size_t i = 0; i < is.memory.size(); ++i) {
      if (Element<T>::bits(is.memory[i]) == Element<T>::bits(wanted.memory[i])) continue;
      ASSERT_NEAR(is.memory[i], wanted.memory[i], 8 * tolerance_of(DType::f64).round_trip * tolerance_of(DType::f64).epsilon);
    }
  } else {
    EXPECT_TRUE(same_bits(is.memory, wanted.memory));
  }
}

template <class T, class P>
void check_directions(const RotarySpec& spec, const std::vector<P>& at, Direction direction) {
  const auto& s = std::get<GivenDirections>(spec.scaling);
  const auto tokens = static_cast<std::int64_t>(at.size()) / s.axes;
  const std::int64_t heads = s.heads == 1 ? 3 : s.heads;
  Tensor<T> q({2, tokens, heads, spec.head_dim}, 71);
  q.with_numbers(spec.rotary_offset, spec.rotary_width);
  Tensor<T> wanted = q;
  q.each_head([&](std::int64_t b, std::int64_t t, std::int64_t h) {
    std::array<long double, 4> where{};
    for (std::int64_t a = 0; a < s.axes; ++a) {
      where[static_cast<std::size_t>(a)] = static_cast<long double>(at[static_cast<std::size_t>(a * tokens + t)]);
    }
    wanted.set_head(b, t, h, naive_head(q.head(b, t, h), model_of_head(spec, h), where, direction != Direction::forward));
  });
  Tensor<T> k = q;
  const Status status = make_rotary(spec).apply(q.view(), k.view(), positions(at.data(), s.axes, 1, tokens), {.direction = direction});
  ASSERT_TRUE(status.ok()) << status.message();
  expect_near_or_same(q, wanted);
  expect_near_or_same(k, wanted);
}

RotarySpec mixed_spec(std::int64_t axes, std::int64_t heads, std::int64_t pairs, Pairing pairing) {
  return {.head_dim = 2 * pairs + 3,
          .rotary_width = 2 * pairs,
          .rotary_offset = 1,
          .scaling = directions(axes, heads, pairs),
          .pairing = pairing};
}

/// A grid, its rows longer than one, and a token at the origin.
std::vector<std::int64_t> grid(std::int64_t axes, std::int64_t tokens) {
  std::vector<std::int64_t> list;
  for (std::int64_t a = 0; a < axes; ++a) {
    for (std::int64_t t = 0; t < tokens; ++t) list.push_back(t == 0 ? 0 : a == 0 ? t % 6 : a == 1 ? t / 6 - 2 : 1000 * a - t);
  }
  return list;
}

TEST_F(Directions, mixed_rotations_of_every_head_are_the_formula_bit_for_bit) {
  on_every_target([] {
    for (const Pairing pairing : {Pairing::half, Pairing::interleaved}) {
      for (const std::int64_t axes : {1, 2, 3, 4}) {
        for (const std::int64_t heads : {1, 5}) {  // 1: golden-gate style, one direction per pair for every head
          const RotarySpec spec = mixed_spec(axes, heads, 37, pairing);
          const std::vector<std::int64_t> whole = grid(axes, 38);
          std::vector<double> fractions(whole.begin(), whole.end());
          for (double& p : fractions) p /= 16;
          for_each_dtype([&](auto tag) {
            using T = typename decltype(tag)::type;
            check_directions<T>(spec, whole, Direction::forward);
            check_directions<T>(spec, fractions, Direction::forward);
            check_directions<T>(spec, whole, Direction::inverse);
            check_directions<T>(spec, fractions, Direction::transpose);
          });
        }
      }
    }
  });
}

TEST_F(Directions, a_direction_along_one_axis_is_the_rotation_of_that_axis) {
  on_every_target([] {
    RotarySpec spec{.head_dim = 48};
    GivenDirections s{2, 1, std::vector<double>(48, 0)};
    GivenFrequencies one{std::vector<double>(24)};
    std::vector<std::uint8_t> axis_of_pair;
    for (std::size_t i = 0; i < 24; ++i) {
      one.frequencies[i] = std::pow(0.8, static_cast<double>(i));
      s.frequencies[i % 2 * 24 + i] = one.frequencies[i];
      axis_of_pair.push_back(static_cast<std::uint8_t>(i % 2));
    }
    spec.scaling = s;
    const Rotary mixed = make_rotary(spec);
    spec.scaling = one;
    spec.axes = {.order = AxisOrder::given, .axis_of_pair = axis_of_pair};
    const Rotary by_axis = make_rotary(spec);
    const std::vector<std::int64_t> at = grid(2, 50);
    Tensor<float> x({1, 50, 3, 48}, 81);
    x.with_numbers(0, 48);
    Tensor<float> wanted = x;
    ASSERT_TRUE(mixed.apply(x.view(), positions(at.data(), 2, 1, 50)).ok());
    ASSERT_TRUE(by_axis.apply(wanted.view(), positions(at.data(), 2, 1, 50)).ok());
    EXPECT_TRUE(same_bits(x.memory, wanted.memory));
  });
}

TEST_F(Directions, opposite_terms_that_cancel_leave_the_pair_alone) {
  on_every_target([] {
    RotarySpec spec{.head_dim = 16,
                    .scaling = GivenDirections{2, 1, {1.25, .1, 3, 1e-9, 7, .5, .3, 1e3, -1.25, -.1, -3, -1e-9, -7, -.5, -.3, -1e3}}};
    const Rotary rotary = make_rotary(spec);
    std::vector<double> fractions = {0.3, 1e15, -7, 0.3, 1e15, -7};
    std::vector<std::int64_t> whole = {12345678901234567, -3, 5, 12345678901234567, -3, 5};
    Tensor<float> x({1, 3, 1, 16}, 82);  // odd bits
    const Tensor<float> before = x;
    ASSERT_TRUE(rotary.apply(x.view(), positions(fractions.data(), 2, 1, 3)).ok());
    ASSERT_TRUE(rotary.apply(x.view(), positions(whole.data(), 2, 1, 3)).ok());
    EXPECT_TRUE(same_bits(x.memory, before.memory));
  });
}

TEST_F(Directions, a_position_that_is_none_makes_every_pair_nan) {
  on_every_target([] {
    const Rotary rotary = make_rotary(mixed_spec(2, 1, 9, Pairing::half));
    std::vector<double> at = {1, std::numeric_limits<double>::infinity(), 2, 3, 4, std::nan("")};
    std::vector<float> cos(27);
    std::vector<float> sin(27);
    ASSERT_TRUE(rotary.cos_sin(positions(at.data(), 2, 1, 3), view(cos.data(), {1, 3, 1, 9}), view(sin.data(), {1, 3, 1, 9})).ok());
    for (std::size_t i = 0; i < 27; ++i) {
      EXPECT_EQ(std::isnan(cos[i]), i >= 9) << i;
      EXPECT_EQ(std::isnan(sin[i]), i >= 9) << i;
    }
  });
}

/// Rows of each head, and tables of each head.
TEST_F(Directions, rows_of_heads_of_their_own_applied_are_bitwise_what_apply_gives) {
  on_every_target([] {
    for_each_dtype([](auto tag) {
      using T = typename decltype(tag)::type;
      using V = typename Element<T>::Value;
      const RotarySpec spec = mixed_spec(3, 5, 19, Pairing::interleaved);
      const Rotary rotary = make_rotary(spec);
      const std::vector<std::int64_t> at = grid(3, 34);
      const Positions where = positions(at.data(), 3, 1, 34);
      Tensor<V> cos({1, 34, 5, 19}, {0, 200, 23, 1}, 91);
      Tensor<V> sin({1, 34, 5, 19}, {0, 19, 34 * 19, 1}, 92);
      ASSERT_TRUE(rotary.cos_sin(where, cos.view(), sin.view()).ok());
      Tensor<T> q({2, 34, 5, spec.head_dim}, 93);
      q.with_numbers(spec.rotary_offset, spec.rotary_width);
      Tensor<T> k = q;
      Tensor<T> q_tables = q;
      Tensor<T> k_tables = q;
      ASSERT_TRUE(rotary.apply(q.view(), k.view(), where).ok());
      const TableLayout layout = {.rotary_width = 38, .rotary_offset = 1, .pairing = Pairing::interleaved};
      const Status status = apply_rotary(q_tables.view(), k_tables.view(), cos.view(), sin.view(), layout);
      ASSERT_TRUE(status.ok()) << status.message();
      EXPECT_TRUE(same_bits(q_tables.memory, q.memory));
      EXPECT_TRUE(same_bits(k_tables.memory, k.memory));
    });
  });
}

TEST_F(Directions, segments_lay_the_pairs_of_directions_out) {
  on_every_target([] {
    RotarySpec spec = mixed_spec(2, 3, 12, Pairing::half);
    spec.segments = 2;
    Model m = model_of_head(spec, 0);
    const std::vector<std::int64_t> at = grid(2, 7);
    Tensor<float> x({1, 7, 3, spec.head_dim}, 95);
    x.with_numbers(spec.rotary_offset, spec.rotary_width);
    Tensor<float> wanted = x;
    x.each_head([&](std::int64_t b, std::int64_t t, std::int64_t h) {
      m.pairs = model_of_head(spec, h).pairs;
      for (std::int64_t i = 0; i < 12; ++i) {
        m.pairs[static_cast<std::size_t>(i)].x = i / 6 * 12 + i % 6;
        m.pairs[static_cast<std::size_t>(i)].y = i / 6 * 12 + i % 6 + 6;
      }
      const std::array<long double, 4> where = {static_cast<long double>(at[static_cast<std::size_t>(t)]),
                                                static_cast<long double>(at[static_cast<std::size_t>(7 + t)]), 0, 0};
      wanted.set_head(b, t, h, naive_head(x.head(b, t, h), m, where, false));
    });
    ASSERT_TRUE(make_rotary(spec).apply(x.view(), positions(at.data(), 2, 1, 7)).ok());
    EXPECT_TRUE(same_bits(x.memory, wanted.memory));
  });
}

}  // namespace
}  // namespace phasor::test
