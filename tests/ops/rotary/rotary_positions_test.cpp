// SPDX-License-Identifier: Apache-2.0
// Positions: every type and shape, the ends of int64, fractions, what is no position, and pairs that do not turn.
#include <cmath>
#include <limits>

#include "ops/rotary/rotary_call.hpp"
#include "tolerance.hpp"

namespace phasor::test {
namespace {

using RotaryPositions = EveryTarget;

constexpr std::int64_t first = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t last = std::numeric_limits<std::int64_t>::max();

RotarySpec spec_of(std::int64_t width, Scaling scaling = Unscaled{}) {
  RotarySpec spec;
  spec.head_dim = width;
  spec.scaling = std::move(scaling);
  return spec;
}

/// Rows of the active target, float32, (tokens, pairs).
struct Table {
  std::vector<float> cos;
  std::vector<float> sin;
};
Table table_of(const Rotary& rotary, const Positions& positions, std::int64_t tokens) {
  const std::int64_t pairs = rotary.rotary_width() / 2;
  const std::size_t size = static_cast<std::size_t>(tokens * pairs);
  Table table{std::vector<float>(size), std::vector<float>(size)};
  const Extents shape = {1, tokens, 1, pairs};
  const Status status = rotary.cos_sin(positions, view(table.cos.data(), shape), view(table.sin.data(), shape));
  EXPECT_TRUE(status.ok()) << status.message();
  return table;
}

TEST_F(RotaryPositions, rows_are_cos_and_sin_of_position_times_frequency) {
  on_every_target([] {
    for (const double base : {10000.0, 500000.0}) {
      for (const std::int64_t width : {2, 34, 128}) {
        const Rotary rotary = make_rotary({.head_dim = width,
                                           .rotary_width = 0,
                                           .rotary_offset = 0,
                                           .base = base,
                                           .scaling = Unscaled{},
                                           .pairing = Pairing::half,
                                           .output_pairing = {},
                                           .sense = Sense::counterclockwise});
        const Table table = table_of(rotary, positions_from(-40), 100);
        for (std::int64_t t = 0; t < 100; ++t) {
          for (std::int64_t i = 0; i < width / 2; ++i) {
            const std::size_t at = static_cast<std::size_t>(t * (width / 2) + i);
            const long double angle = static_cast<long double>(t - 40) * reference::frequency(base, width, i);
            EXPECT_LE(reference::ulps_apart(table.cos[at], std::cos(angle)), row_ulps) << t << " " << i;
            EXPECT_LE(reference::ulps_apart(table.sin[at], std::sin(angle)), row_ulps) << t << " " << i;
          }
        }
      }
    }
  });
}

TEST_F(RotaryPositions, a_run_of_positions_has_the_rows_that_each_position_has_alone) {
  const Rotary rotary = make_rotary(spec_of(102));
  on_every_target([&] {
    constexpr std::int64_t k2To31 = std::int64_t{1} << 31;  // where words end, signed and not
    constexpr std::int64_t k2To32 = std::int64_t{1} << 32;
    for (const std::int64_t start :
         {std::int64_t{-20}, first, last - 40, std::int64_t{1} << 40, std::int64_t{99990}, k2To31 - 20, k2To32 - 20, k2To32}) {
      SCOPED_TRACE(start);
      const Table run = table_of(rotary, positions_from(start), 41);
      for (std::int64_t t = 0; t < 41; ++t) {
        const Table alone = table_of(rotary, positions_from(start + t), 1);
        const std::size_t row = static_cast<std::size_t>(t * 51);
        const auto slice = [row](const std::vector<float>& v) { return std::vector<float>(v.data() + row, v.data() + row + 51); };
        EXPECT_TRUE(same_bits(slice(run.cos), alone.cos)) << t;
        EXPECT_TRUE(same_bits(slice(run.sin), alone.sin)) << t;
      }
    }
  });
}

TEST_F(RotaryPositions, an_offset_wraps_like_int64) {
  const Rotary rotary = make_rotary(spec_of(34));
  std::vector<std::int64_t> wrapped;
  for (std::int64_t t = 0; t < 9; ++t) wrapped.push_back(t < 5 ? last - 4 + t : first + t - 5);
  on_every_target([&] {
    const Table offset = table_of(rotary, positions_from(last - 4), 9);
    const Table given = table_of(rotary, positions(wrapped.data(), 9), 9);
    EXPECT_TRUE(same_bits(offset.cos, given.cos));
    EXPECT_TRUE(same_bits(offset.sin, given.sin));
    const Table scalar = [&] {
      const OnTarget forced("scalar");
      return table_of(rotary, positions_from(last - 4), 9);
    }();
    EXPECT_TRUE(same_bits(offset.cos, scalar.cos));
    EXPECT_TRUE(same_bits(offset.sin, scalar.sin));
  });
}

TEST_F(RotaryPositions, int32_int64_and_float64_positions_of_the_same_value_have_the_same_rows) {
  const Rotary rotary = make_rotary(spec_of(70));
  const std::vector<std::int32_t> i32 = {0, 1, 2, 3, -1, -2147483647 - 1, 2147483647, 77, 76, 75, 1000000};
  const std::vector<std::int64_t> i64(i32.begin(), i32.end());
  const std::vector<double> f64(i32.begin(), i32.end());
  on_every_target([&] {
    const Table a = table_of(rotary, positions(i32.data(), 11), 11);
    const Table b = table_of(rotary, positions(i64.data(), 11), 11);
    const Table c = table_of(rotary, positions(f64.data(), 11), 11);
    EXPECT_TRUE(same_bits(a.cos, b.cos) && same_bits(a.sin, b.sin));
    EXPECT_TRUE(same_bits(a.cos, c.cos) && same_bits(a.sin, c.sin));
  });
}

TEST_F(RotaryPositions, each_batch_row_may_have_positions_of_its_own_or_share_them) {
  const std::vector<std::int64_t> list = {5, 6, 7, 0, -1, 100000, first, last, 3, 2, 1, 0};
  on_every_target([&] {
    for_each_dtype([&](auto tag) {
      using T = typename decltype(tag)::type;
      const Extents shape = {3, 4, 3, 34};
      check_apply<T>({spec_of(34), shape, {positions(list.data(), 3, 4), 3, 4}});
      check_apply<T>({spec_of(34), shape, {positions(list.data(), 4), 1, 4}});
      Positions strided = positions(list.data() + 11, 3, 4);
      strided.strides = {0, -1, -3};  // backwards, tokens the slower axis
      check_apply<T>({spec_of(34), shape, {strided, 3, 4}});
      Positions same = positions(list.data() + 5, 3, 4);
      same.strides = {0, 0, 0};  // one position for every token
      check_apply<T>({spec_of(34), shape, {same, 3, 4}});
    });
  });
}

TEST_F(RotaryPositions, stride_0_gives_every_token_the_same_row) {
  const Rotary rotary = make_rotary(spec_of(34));
  const std::int64_t position = 12345678901;
  Positions same = positions(&position, 5);
  same.strides[2] = 0;
  on_every_target([&] {
    const Table one = table_of(rotary, positions_from(position), 1);
    const Table five = table_of(rotary, same, 5);
    for (std::size_t i = 0; i < five.cos.size(); ++i) {
      EXPECT_EQ(five.cos[i], one.cos[i % 17]);
      EXPECT_EQ(five.sin[i], one.sin[i % 17]);
    }
  });
}

TEST_F(RotaryPositions, fractions_of_a_position_turn_by_fractions_of_the_frequency) {
  const std::vector<double> list = {0.37, -0.37, 0.5, 1e-3, 12345.678, -0.0, 1e-300, 3.25};
  const std::vector<double> frequencies = {6.283185307179586, -1.5, 1e-4, 100, 0.25};
  const Rotary rotary = make_rotary(spec_of(10, GivenFrequencies{.frequencies = frequencies}));
  on_every_target([&] {
    const Table table = table_of(rotary, positions(list.data(), 8), 8);
    for (std::size_t at = 0; at < 40; ++at) {
      const long double angle = static_cast<long double>(list[at / 5]) * static_cast<long double>(frequencies[at % 5]);
      EXPECT_LE(reference::ulps_apart(table.cos[at], std::cos(angle)), row_ulps) << at;
      EXPECT_LE(reference::ulps_apart(table.sin[at], std::sin(angle)), row_ulps) << at;
    }
  });
}

TEST_F(RotaryPositions, what_is_no_position_gives_nan_rows_and_its_neighbours_are_sound) {
  const double infinity = std::numeric_limits<double>::infinity();
  const std::vector<double> bad = {1, std::nan(""), 2, infinity, 3, -infinity, 4, 0x1p63, 5, -0x1p63, 6, 0x1p64};
  const Rotary rotary = make_rotary(spec_of(34, ProportionalScaling{.factor = 1, .share = 0.5}));
  on_every_target([&] {
    const Table table = table_of(rotary, positions(bad.data(), 12), 12);
    for (std::size_t t = 0; t < 12; ++t) {
      const Table alone = table_of(rotary, positions_from(static_cast<std::int64_t>(t / 2 + 1)), 1);
      for (std::size_t i = 0; i < 17; ++i) {
        if (t % 2 == 1) {
          EXPECT_TRUE(std::isnan(table.cos[17 * t + i]) && std::isnan(table.sin[17 * t + i])) << t << " " << i;
        } else {
          EXPECT_TRUE(table.cos[17 * t + i] == alone.cos[i] && table.sin[17 * t + i] == alone.sin[i]) << t << " " << i;
        }
      }
    }
    for_each_dtype([&](auto tag) {
      using T = typename decltype(tag)::type;
      Tensor<T> x({1, 12, 1, 34}, 41);
      x.with_numbers(0, 34);
      ASSERT_TRUE(rotary.apply(x.view(), positions(bad.data(), 12)).ok());
      for (std::int64_t i = 0; i < 12 * 34; ++i) EXPECT_EQ(reference::is_nan(x.at(0, i / 34, 0, i % 34)), i / 34 % 2 == 1) << i;
    });
  });
}

TEST_F(RotaryPositions, the_largest_float64_below_2_to_the_63_is_a_position) {
  const Rotary rotary = make_rotary(spec_of(34));
  const double position = 0x1.fffffffffffffp62;
  on_every_target([&] {
    const Table f64 = table_of(rotary, positions(&position, 1), 1);
    const Table i64 = table_of(rotary, positions_from(static_cast<std::int64_t>(position)), 1);
    EXPECT_TRUE(same_bits(f64.cos, i64.cos) && same_bits(f64.sin, i64.sin));
  });
}

/// Any bits, -0, infinities and NaN among them, must come out as they went in wherever `kept(pair)` says so.
template <class T, class Kept>
void check_kept(const RotarySpec& spec, std::int64_t position, Kept kept) {
  const Rotary rotary = make_rotary(spec);
  const reference::Geometry g = geometry_of(spec);
  Tensor<T> in({1, 1, 3, spec.head_dim}, 43);
  in.at(0, 0, 0, g.offset + g.width - 1) = Element<T>::narrow(-0.0F);
  in.at(0, 0, 1, g.offset + g.width - 1) = Element<T>::narrow(-std::numeric_limits<float>::infinity());
  Tensor<T> out(in.shape(), 44);
  ASSERT_TRUE(rotary.apply({in.view(), out.view()}, positions_from(position)).ok());
  Tensor<T> in_place = in;
  ASSERT_TRUE(rotary.apply(in_place.view(), positions_from(position)).ok());
  for (std::int64_t h = 0; h < 3; ++h) {
    for (std::int64_t i = 0; i < g.width / 2; ++i) {
      for (const int lane : {0, 1}) {
        if (!kept(i)) continue;
        const auto bits = Element<T>::bits(in.at(0, 0, h, g.offset + reference::channel(g.read, g.width, i, lane)));
        const std::int64_t to = g.offset + reference::channel(g.write, g.width, i, lane);
        EXPECT_EQ(Element<T>::bits(out.at(0, 0, h, to)), bits) << "out of place, head " << h << ", pair " << i;
        EXPECT_EQ(Element<T>::bits(in_place.at(0, 0, h, to)), bits) << "in place, head " << h << ", pair " << i;
      }
    }
  }
}

template <class Kept>
void check_kept_everywhere(RotarySpec spec, std::int64_t position, Kept kept) {
  for (const Pairing read : {Pairing::half, Pairing::interleaved}) {
    for (const Pairing write : {Pairing::half, Pairing::interleaved}) {
      spec.pairing = read;
      spec.output_pairing = write;
      for_each_dtype([&](auto tag) { check_kept<typename decltype(tag)::type>(spec, position, kept); });
    }
  }
}

TEST_F(RotaryPositions, position_0_leaves_the_data_bit_for_bit) {
  on_every_target([] { check_kept_everywhere(spec_of(74), 0, [](std::int64_t) { return true; }); });
}

TEST_F(RotaryPositions, trailing_pairs_of_frequency_0_are_left_bit_for_bit) {
  on_every_target([] {
    RotarySpec spec = spec_of(80, ProportionalScaling{.factor = 1, .share = 0.55});
    check_kept_everywhere(spec, 12345, [](std::int64_t i) { return i >= 22; });
  });
}

TEST_F(RotaryPositions, pairs_of_frequency_0_among_others_are_left_bit_for_bit) {
  GivenFrequencies scaling;
  for (int i = 0; i < 37; ++i) scaling.frequencies.push_back(i % 3 == 1 ? 0 : 0.1 * i + 0.05);
  on_every_target([&] { check_kept_everywhere(spec_of(74, scaling), -77, [](std::int64_t i) { return i % 3 == 1; }); });
}

TEST_F(RotaryPositions, pairs_around_those_of_frequency_0_still_turn) {
  GivenFrequencies scaling;
  for (int i = 0; i < 37; ++i) scaling.frequencies.push_back(i % 3 == 1 || i > 30 ? 0 : 0.1 * i + 0.05);
  on_every_target([&] {
    for_each_dtype(
        [&](auto tag) { check_apply<typename decltype(tag)::type>({spec_of(74, scaling), {1, 9, 1, 74}, {positions_from(-4), 1, 9}}); });
  });
}

}  // namespace
}  // namespace phasor::test
