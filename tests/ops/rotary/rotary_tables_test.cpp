// SPDX-License-Identifier: Apache-2.0
// Rotation by given tables: bitwise what phases give, half and full width, every table dtype, lanes that turn by different angles.
#include <vector>

#include "ops/rotary/rotary_call.hpp"
#include "tolerance.hpp"

namespace phasor::test {
namespace {

using RotaryTables = EveryTarget;

constexpr Pairing pairings[] = {Pairing::half, Pairing::interleaved};

RotarySpec base_spec(Scaling scaling = Unscaled{}) {
  RotarySpec spec;
  spec.head_dim = 43;
  spec.rotary_width = 38;
  spec.rotary_offset = 3;
  spec.scaling = std::move(scaling);
  return spec;
}

TableLayout layout_of(const RotarySpec& spec) {
  return {spec.rotary_width, spec.rotary_offset, spec.pairing, spec.output_pairing, spec.sense};
}

std::vector<Scaling> scalings() {
  YarnScaling yarn;
  yarn.factor = 4;
  yarn.original_length = 4096;
  LongRopeScaling long_rope;
  long_rope.short_factors.assign(19, 1.5);
  long_rope.long_factors.assign(19, 3.25);
  long_rope.original_length = 4096;
  long_rope.factor = 32;
  long_rope.length = 8192;
  return {Unscaled{}, yarn, long_rope, Llama3Scaling{}, ProportionalScaling{.factor = 2, .share = 0.4}};
}

/// apply by phases against apply_rotary by rows that cos_sin made; (B, T) positions.
template <class T>
void check_rows_then_apply(const RotarySpec& spec, Direction direction) {
  using V = typename Element<T>::Value;
  const Rotary rotary = make_rotary(spec);
  const std::vector<std::int64_t> list = {0, 1, 2, 99999, -5, 7, 8, 9, 10, std::int64_t{1} << 50};
  const Extents rows = {2, 5, 1, 19};
  std::vector<V> cos(190);
  std::vector<V> sin(190);
  ASSERT_TRUE(rotary.cos_sin(positions(list.data(), 2, 5), view(cos.data(), rows), view(sin.data(), rows)).ok());
  Tensor<T> by_phases({2, 5, 3, 43}, 51);
  by_phases.with_numbers(3, 38);
  Tensor<T> by_tables = by_phases;
  ASSERT_TRUE(rotary.apply(by_phases.view(), positions(list.data(), 2, 5), {.direction = direction}).ok());
  const ConstTensorView c = view(std::as_const(cos).data(), rows);
  const ConstTensorView s = view(std::as_const(sin).data(), rows);
  const Status status = apply_rotary(by_tables.view(), c, s, layout_of(spec), {.direction = direction});
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_TRUE(same_bits(by_tables.memory, by_phases.memory));
}

TEST_F(RotaryTables, rows_made_once_and_applied_are_bitwise_what_phases_give) {
  on_every_target([] {
    for (const Scaling& scaling : scalings()) {
      SCOPED_TRACE(scaling.index());
      for (const Pairing read : pairings) {
        for (const Pairing write : pairings) {
          RotarySpec spec = base_spec(scaling);
          spec.pairing = read;
          spec.output_pairing = write;
          spec.sense = read == write ? Sense::counterclockwise : Sense::clockwise;
          for_each_dtype([&](auto tag) {
            check_rows_then_apply<typename decltype(tag)::type>(spec, Direction::forward);
            check_rows_then_apply<typename decltype(tag)::type>(spec, Direction::transpose);
          });
        }
      }
    }
  });
}

/// Tables of dtype C, (batch, 5, 1, 19 or 38), and the rows they mean.
template <class C, class V>
struct Given {
  Tensor<C> cos;
  Tensor<C> sin;
  reference::Rows<V> rows;
};

/// Full width: a value for each channel, laid out as the output is, the two lanes unlike each other.
template <class C, class V>
Given<C, V> given_tables(std::int64_t batch, bool full, Pairing output) {
  const std::int64_t width = full ? 38 : 19;
  const Extents shape = {batch, 5, 1, width};
  const Extents strides = {5 * (width + 2), width + 2, 1000, 1};
  Given<C, V> given{Tensor<C>(shape, strides, 61), Tensor<C>(shape, strides, 62), {batch, 5, 19, {}, {}}};
  given.cos.with_numbers(0, width, 63);
  given.sin.with_numbers(0, width, 64);
  for (std::int64_t row = 0; row < batch * 5; ++row) {
    for (std::int64_t i = 0; i < 19; ++i) {
      for (const int lane : {0, 1}) {
        const std::int64_t d = full ? reference::channel(output, 38, i, lane) : i;
        given.rows.cos[lane].push_back(static_cast<V>(Element<C>::widen(given.cos.at(row / 5, row % 5, 0, d))));
        given.rows.sin[lane].push_back(static_cast<V>(Element<C>::widen(given.sin.at(row / 5, row % 5, 0, d))));
      }
    }
  }
  return given;
}

/// x' = x c1 + y s2, y' = y c2 - x s1: the transpose as a rotation by other rows.
template <class V>
reference::Rows<V> transposed(reference::Rows<V> rows) {
  std::swap(rows.sin[0], rows.sin[1]);
  return rows;
}
template <class V>
reference::Rows<V> negated(reference::Rows<V> rows) {
  for (std::vector<V>& lane : rows.sin) {
    for (V& s : lane) s = -s;
  }
  return rows;
}

template <class T, class C>
void check_given(std::int64_t batch, bool full, const TableLayout& layout) {
  using V = typename Element<T>::Value;
  const Pairing output = layout.output_pairing.value_or(layout.pairing);
  Given<C, V> given = given_tables<C, V>(batch, full, output);
  Tensor<T> in({3, 5, 3, 43}, 65);
  in.with_numbers(3, 38);
  const auto signed_rows = layout.sense == Sense::clockwise ? negated(given.rows) : given.rows;
  for (const Direction direction : {Direction::forward, Direction::transpose, Direction::inverse}) {
    SCOPED_TRACE(static_cast<int>(direction));
    const bool forward = direction == Direction::forward;
    const reference::Geometry g = {38, 3, forward ? layout.pairing : output, forward ? output : layout.pairing};
    const auto rows = forward ? signed_rows : negated(transposed(signed_rows));
    Tensor<T> out(in.shape(), 66);
    Tensor<T> wanted = out;
    rotate_reference(in, wanted, g, rows);
    const Status status = apply_rotary({in.view(), out.view()}, given.cos.view(), given.sin.view(), layout, {.direction = direction});
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_TRUE(same_bits(out.memory, wanted.memory)) << "out of place";
    Tensor<T> in_place = in;
    Tensor<T> wanted_in_place = in;
    rotate_reference(in, wanted_in_place, g, rows);
    ASSERT_TRUE(apply_rotary(in_place.view(), given.cos.view(), given.sin.view(), layout, {.direction = direction}).ok());
    EXPECT_TRUE(same_bits(in_place.memory, wanted_in_place.memory)) << "in place";
  }
}

template <class T>
void check_every_table_dtype(std::int64_t batch, bool full, const TableLayout& layout) {
  check_given<T, float>(batch, full, layout);
  check_given<T, Float16>(batch, full, layout);
  check_given<T, BFloat16>(batch, full, layout);
  if constexpr (std::is_same_v<T, double>) check_given<T, double>(batch, full, layout);
}

TEST_F(RotaryTables, half_and_full_width_tables_of_every_dtype_are_the_reference) {
  on_every_target([] {
    for (const Pairing read : pairings) {
      for (const Pairing write : pairings) {
        for (const bool full : {false, true}) {
          SCOPED_TRACE(testing::Message() << static_cast<int>(read) << static_cast<int>(write) << (full ? " full" : " half"));
          const Sense sense = full ? Sense::clockwise : Sense::counterclockwise;
          const TableLayout layout = {38, 3, read, write, sense};
          const std::int64_t batch = read == write ? 1 : 3;
          for_each_dtype([&](auto tag) { check_every_table_dtype<typename decltype(tag)::type>(batch, full, layout); });
        }
      }
    }
  });
}

TEST_F(RotaryTables, a_full_width_table_with_both_lanes_alike_is_the_half_width_table) {
  on_every_target([] {
    const Extents half = {1, 3, 1, 17};
    const Extents full = {1, 3, 1, 34};
    Tensor<float> cos(half, 71);
    Tensor<float> sin(half, 72);
    cos.with_numbers(0, 17, 73);
    sin.with_numbers(0, 17, 74);
    for (const Pairing pairing : pairings) {
      Tensor<float> full_cos(full, 75);
      Tensor<float> full_sin(full, 76);
      for (std::int64_t at = 0; at < 3 * 34; ++at) {
        const std::int64_t t = at / 34;
        const std::int64_t i = at % 34 / 2;
        const std::int64_t d = reference::channel(pairing, 34, i, static_cast<int>(at % 2));
        full_cos.at(0, t, 0, d) = cos.at(0, t, 0, i);
        full_sin.at(0, t, 0, d) = sin.at(0, t, 0, i);
      }
      for_each_dtype([&](auto tag) {
        using T = typename decltype(tag)::type;
        Tensor<T> a({2, 3, 1, 34}, 77);
        a.with_numbers(0, 34);
        Tensor<T> b = a;
        TableLayout layout;
        layout.pairing = pairing;
        ASSERT_TRUE(apply_rotary(a.view(), cos.view(), sin.view(), layout).ok());
        ASSERT_TRUE(apply_rotary(b.view(), full_cos.view(), full_sin.view(), layout).ok());
        EXPECT_TRUE(same_bits(a.memory, b.memory));
      });
    }
  });
}

/// <R x, y> = <x, R^T y> for lanes that turn by different angles, in float64.
TEST_F(RotaryTables, the_transpose_of_lanes_that_differ_is_the_adjoint) {
  on_every_target([] {
    for (const Pairing output : pairings) {
      Given<double, double> given = given_tables<double, double>(1, true, output);
      const TableLayout layout = {38, 3, Pairing::half, output, Sense::counterclockwise};
      Tensor<double> x({1, 5, 1, 43}, 81);
      Tensor<double> y({1, 5, 1, 43}, 82);
      x.with_numbers(0, 43, 83);
      y.with_numbers(0, 43, 84);
      const Tensor<double> x_before = x;
      const Tensor<double> y_before = y;
      ASSERT_TRUE(apply_rotary(x.view(), given.cos.view(), given.sin.view(), layout).ok());
      ASSERT_TRUE(apply_rotary(y.view(), given.cos.view(), given.sin.view(), layout, {.direction = Direction::transpose}).ok());
      for (std::int64_t t = 0; t < 5; ++t) {
        double left = 0;
        double right = 0;
        double size = 0;
        for (std::int64_t d = 0; d < 43; ++d) {
          left += x.at(0, t, 0, d) * y_before.at(0, t, 0, d);
          right += x_before.at(0, t, 0, d) * y.at(0, t, 0, d);
          size += std::fabs(x.at(0, t, 0, d) * y_before.at(0, t, 0, d)) + std::fabs(x_before.at(0, t, 0, d) * y.at(0, t, 0, d));
        }
        const Tolerance tolerance = tolerance_of(DType::f64);
        EXPECT_NEAR(left, right, tolerance.round_trip * tolerance.epsilon * size);
      }
    }
  });
}

TEST_F(RotaryTables, q_and_k_turn_by_the_same_tables) {
  on_every_target([] {
    Given<float, float> given = given_tables<float, float>(1, false, Pairing::half);
    const TableLayout layout = {38, 3, Pairing::half, {}, Sense::counterclockwise};
    const reference::Geometry g = {38, 3, Pairing::half, Pairing::half};
    Tensor<BFloat16> q({2, 5, 7, 43}, 91);
    Tensor<BFloat16> k({2, 5, 1, 43}, 92);
    q.with_numbers(3, 38, 93);
    k.with_numbers(3, 38, 94);
    Tensor<BFloat16> q_wanted = q;
    Tensor<BFloat16> k_wanted = k;
    rotate_reference(q, q_wanted, g, given.rows);
    rotate_reference(k, k_wanted, g, given.rows);
    ASSERT_TRUE(apply_rotary(q.view(), k.view(), given.cos.view(), given.sin.view(), layout).ok());
    EXPECT_TRUE(same_bits(q.memory, q_wanted.memory));
    EXPECT_TRUE(same_bits(k.memory, k_wanted.memory));
  });
}

TEST_F(RotaryTables, cos_sin_writes_only_its_rows_whatever_their_strides) {
  const Rotary rotary = make_rotary(base_spec());
  on_every_target([&] {
    const Extents shape = {2, 5, 1, 19};
    const auto check = [&](const Extents& cos_strides, const Extents& sin_strides, auto tag) {
      using V = typename decltype(tag)::type;
      const std::vector<std::int64_t> list = {0, 1, 2, 3, 4, -9, 5, 6, 7, 1000000};
      const auto rows = rows_of<V>(rotary, {positions(list.data(), 2, 5), 2, 5});
      Tensor<V> cos(shape, cos_strides, 95);
      Tensor<V> sin(shape, sin_strides, 96);
      Tensor<V> cos_wanted = cos;
      Tensor<V> sin_wanted = sin;
      for (std::int64_t at = 0; at < 190; ++at) {
        cos_wanted.at(at / 95, at / 19 % 5, 0, at % 19) = rows.cos[0][static_cast<std::size_t>(at)];
        sin_wanted.at(at / 95, at / 19 % 5, 0, at % 19) = rows.sin[0][static_cast<std::size_t>(at)];
      }
      ASSERT_TRUE(rotary.cos_sin(positions(list.data(), 2, 5), cos.view(), sin.view()).ok());
      EXPECT_TRUE(same_bits(cos.memory, cos_wanted.memory));
      EXPECT_TRUE(same_bits(sin.memory, sin_wanted.memory));
    };
    check({100, 20, 7, 1}, {100, 20, 7, 1}, Tag<float>());
    check({19, 38, 0, 1}, {-200, -31, 0, 1}, Tag<float>());
    check({19, 38, 0, 1}, {-200, -31, 0, 1}, Tag<double>());
  });
}

}  // namespace
}  // namespace phasor::test
