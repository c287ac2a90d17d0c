// SPDX-License-Identifier: Apache-2.0
// Rerotation on every target, dtype, pairing and stride pattern: bits against the naive rotation, rows against long double, and that a
// position shift is a rotation by the shift.
#include <cmath>
#include <numeric>

#include "ops/rotary/rerotate_call.hpp"
#include "tolerance.hpp"

namespace phasor::test {
namespace {

using Rerotate = EveryTarget;

constexpr std::int64_t batch = 2;
constexpr std::int64_t tokens = 37;

/// 21 pairs, 42 channels from the third on; head_dim 47.
RotarySpec spec_of(double base, Scaling scaling = Unscaled{}) {
  RotarySpec spec{.head_dim = 47, .rotary_width = 42, .rotary_offset = 3, .base = base};
  spec.scaling = std::move(scaling);
  return spec;
}

std::vector<double> rising(double first, double step) {
  std::vector<double> list(21);
  for (std::size_t i = 0; i < list.size(); ++i) list[i] = first + step * static_cast<double>(i);
  return list;
}

Scaling longrope(LongRopeChoice choice) {
  return LongRopeScaling{.short_factors = rising(1, 0.01),
                         .long_factors = rising(1, 1.5),
                         .original_length = 4096,
                         .factor = 32,
                         .attention_factor = std::nullopt,
                         .choice = choice};
}

/// Two specs that a user moves between.
struct Change {
  const char* name;
  RotarySpec from;
  RotarySpec to;
};

std::vector<Change> changes() {
  const Scaling yarn = YarnScaling{.factor = 16, .original_length = 4096};
  const Scaling other_yarn = YarnScaling{.factor = 4, .original_length = 4096, .attention_factor = 0.7};
  const auto dynamic = [](std::int64_t length) { return DynamicNtkScaling{.factor = 2, .trained_length = 2048, .length = length}; };
  std::vector<Change> list = {
      {"one spec", spec_of(10000), spec_of(10000)},
      {"another base", spec_of(10000), spec_of(500000)},
      {"dynamic NTK grows", spec_of(10000, dynamic(3000)), spec_of(10000, dynamic(6000))},
      {"LongRoPE short to long", spec_of(10000, longrope(LongRopeChoice::short_factors)),
       spec_of(10000, longrope(LongRopeChoice::long_factors))},
      {"to YaRN", spec_of(10000), spec_of(10000, yarn)},
      {"from YaRN", spec_of(10000, yarn), spec_of(10000)},
      {"YaRN to another", spec_of(10000, yarn), spec_of(10000, other_yarn)},
      {"one YaRN", spec_of(10000, yarn), spec_of(10000, yarn)},
      {"pairs that rest", spec_of(10000), spec_of(10000, ProportionalScaling{.share = 0.5})},
      {"the other sense", spec_of(10000), spec_of(777)},
  };
  list.back().from.sense = Sense::clockwise;
  return list;
}

/// (B, T) of whole positions: consecutive, then any, then near both ends of the range.
std::vector<std::int64_t> whole_positions(std::int64_t first, std::uint64_t seed) {
  std::vector<std::int64_t> list;
  Random random(seed);
  for (std::int64_t i = 0; i < batch * tokens; ++i) {
    const std::int64_t t = i % tokens;
    list.push_back(t < 20 ? first + t : t < 30 ? static_cast<std::int64_t>(random.bits() >> 40) - 4000000 : 0);
    if (t >= 33) list.back() = (t % 2 == 0 ? 1 : -1) * ((std::int64_t{1} << 62) - static_cast<std::int64_t>(random.bits() >> 50));
  }
  return list;
}

std::vector<double> fractional(const std::vector<std::int64_t>& whole) {
  std::vector<double> list;
  for (const std::int64_t p : whole) list.push_back(static_cast<double>(p) / 16);
  return list;
}

Moving moving(const RotarySpec& from, const Positions& a, const RotarySpec& to, const Positions& b) {
  return {{make_rotary(from), a}, {make_rotary(to), b}, batch, tokens};
}

TEST_F(Rerotate, every_dtype_and_pairing_is_turned_as_the_reference_turns_it) {
  const std::vector<std::int64_t> a = whole_positions(100, 1);
  const std::vector<std::int64_t> b = whole_positions(1007, 2);
  for (const Change& change : changes()) {
    for (const Pairing pairing : {Pairing::half, Pairing::interleaved}) {
      SCOPED_TRACE(change.name);
      RotarySpec from = change.from;
      RotarySpec to = change.to;
      from.pairing = to.pairing = pairing;
      const Moving m = moving(from, positions(a.data(), batch, tokens), to, positions(b.data(), batch, tokens));
      const Extents shape = {batch, tokens, 3, 47};
      on_every_target(
          [&] { for_each_dtype([&](auto tag) { check_rerotate<typename decltype(tag)::type>(m, shape, contiguous_strides(shape)); }); });
    }
  }
}

TEST_F(Rerotate, keys_in_any_strides_and_of_one_or_many_heads) {
  const std::vector<std::int64_t> a = whole_positions(-5, 3);
  const Moving m = moving(spec_of(10000), positions(a.data(), batch, tokens), spec_of(500000), positions(a.data(), batch, tokens));
  on_every_target([&] {
    for (const std::int64_t heads : {1, 7}) {
      const Extents shape = {batch, tokens, heads, 47};
      const Extents bhtd = {heads * tokens * 47, 47, tokens * 47, 1};
      const Extents packed = {tokens * (heads + 9) * 47, (heads + 9) * 47, 47, 1};
      const Extents backwards = {tokens * heads * 47, -heads * 47, 47, 1};
      for (const Extents& strides : {bhtd, packed, backwards}) {
        check_rerotate<float>(m, shape, strides);
        check_rerotate<BFloat16>(m, shape, strides);
      }
    }
  });
}

TEST_F(Rerotate, positions_of_every_type_and_mixed_ones) {
  const std::vector<std::int64_t> whole = whole_positions(9, 4);
  std::vector<std::int32_t> narrow;
  for (std::int64_t i = 0; i < tokens; ++i) narrow.push_back(static_cast<std::int32_t>(3 * i - 50));
  std::vector<double> fractions = fractional(whole);
  fractions[3] = std::nan("");
  fractions[tokens + 4] = 0x1p63;
  const Positions kinds[] = {positions_from(-17), positions(narrow.data(), tokens), positions(whole.data(), batch, tokens),
                             positions(fractions.data(), batch, tokens)};
  for (const Positions& from : kinds) {
    for (const Positions& to : kinds) {
      for (const double base : {10000.0, 31.0}) {
        const Moving m = moving(spec_of(10000), from, spec_of(base), to);
        reference::Rows<float> scalar;
        {
          const OnTarget forced("scalar");
          scalar = rows_by_probe<float>(m);
        }
        on_every_target([&] {
          const reference::Rows<float> rows = rows_by_probe<float>(m);
          EXPECT_TRUE(same_numbers(rows.cos[0], scalar.cos[0]));
          EXPECT_TRUE(same_numbers(rows.sin[0], scalar.sin[0]));
          for (std::int64_t b = 0; b < batch; ++b) {
            for (std::int64_t t = 0; t < tokens; ++t) {
              const bool lost = (&from == &kinds[3] || &to == &kinds[3]) && ((b == 0 && t == 3) || (b == 1 && t == 4));
              EXPECT_EQ(std::isnan(rows.cos[0][rows.index(b, t, 20)]), lost) << b << " " << t;
            }
          }
        });
      }
    }
  }
}

/// By the definition, in long double.
TEST_F(Rerotate, rows_are_the_cosine_and_sine_of_the_difference_times_the_quotient_of_the_amplitudes) {
  std::vector<std::int64_t> a(batch * tokens);
  std::vector<std::int64_t> b(batch * tokens);
  std::iota(a.begin(), a.end(), 7);
  std::iota(b.begin(), b.end(), 100);
  for (std::size_t i = 50; i < a.size(); ++i) b[i] = static_cast<std::int64_t>((i * i * 31) % 5000) - 2500;
  for (const Change& change : changes()) {
    SCOPED_TRACE(change.name);
    const Moving m = moving(change.from, positions(a.data(), batch, tokens), change.to, positions(b.data(), batch, tokens));
    const long double quotient = static_cast<long double>(m.to.rotary.amplitude()) / m.from.rotary.amplitude();
    const int opposed = change.from.sense == change.to.sense ? 1 : -1;
    on_every_target([&] {
      const reference::Rows<float> rows = rows_by_probe<float>(m);
      for (std::size_t i = 0; i < rows.cos[0].size(); ++i) {
        const std::size_t row = i / 21;
        const long double angle = static_cast<long double>(b[row]) * m.to.rotary.frequencies()[i % 21] -
                                  opposed * (static_cast<long double>(a[row]) * m.from.rotary.frequencies()[i % 21]);
        ASSERT_LE(reference::ulps_apart(rows.cos[0][i], quotient * std::cos(angle)), row_ulps) << row << " " << i % 21;
        ASSERT_LE(reference::ulps_apart(rows.sin[0][i], quotient * std::sin(angle)), row_ulps) << row << " " << i % 21;
      }
    });
  }
}

/// Peer defect: a cache shift that brings the amplitude in again.
TEST_F(Rerotate, a_shift_within_one_spec_is_a_pure_rotation_whatever_its_amplitude) {
  const RotarySpec yarn = spec_of(10000, YarnScaling{.factor = 16, .original_length = 4096});
  RotarySpec plain = yarn;
  std::get<YarnScaling>(plain.scaling).attention_factor = 1;
  ASSERT_GT(make_rotary(yarn).amplitude(), 1.2);
  const std::vector<std::int64_t> delta(tokens, -123);
  on_every_target([&] {
    for_each_dtype([&](auto tag) {
      using T = typename decltype(tag)::type;
      Tensor<T> keys({batch, tokens, 3, 47}, 5);
      keys.with_numbers(3, 42);
      Tensor<T> wanted = keys;
      ASSERT_TRUE(rerotate(keys.view(), {make_rotary(yarn), positions_from(500)}, {make_rotary(yarn), positions_from(377)}).ok());
      ASSERT_TRUE(make_rotary(plain).apply(wanted.view(), positions(delta.data(), tokens)).ok());
      EXPECT_TRUE(same_bits(keys.memory, wanted.memory));
    });
  });
}

TEST_F(Rerotate, keys_that_do_not_move_stay_bit_for_bit) {
  const std::vector<std::int64_t> a = whole_positions(100, 1);
  const std::vector<double> f = fractional(a);
  const Scaling yarn = YarnScaling{.factor = 16, .original_length = 4096};
  on_every_target([&] {
    for_each_dtype([&](auto tag) {
      using T = typename decltype(tag)::type;
      for (const Positions& at : {positions(a.data(), batch, tokens), positions(f.data(), batch, tokens), positions_from(INT64_MAX - 5)}) {
        for (const Pairing pairing : {Pairing::half, Pairing::interleaved}) {
          RotarySpec spec = spec_of(10000, yarn);
          spec.pairing = pairing;
          Tensor<T> keys({batch, tokens, 3, 47}, 6);  // NaN with payloads among them
          const Tensor<T> before = keys;
          ASSERT_TRUE(rerotate(keys.view(), {make_rotary(spec), at}, {make_rotary(spec), at}).ok());
          EXPECT_TRUE(same_bits(keys.memory, before.memory));
        }
      }
    });
  });
}

TEST_F(Rerotate, pairs_that_two_ladders_share_stay_bit_for_bit_where_the_others_turn) {
  // Pair 0 turns by one radian whatever the base.
  const Moving m = moving(spec_of(10000), positions_from(4000), spec_of(777), positions_from(4000));
  on_every_target([&] {
    Tensor<float> keys({batch, tokens, 3, 47}, 7);
    keys.with_numbers(4, 20).with_numbers(25, 20);
    const Tensor<float> before = keys;
    ASSERT_TRUE(rerotate(keys.view(), m.from, m.to).ok());
    before.each_head([&](std::int64_t b, std::int64_t t, std::int64_t h) {
      for (const std::int64_t d : {3, 24}) {
        EXPECT_EQ(Element<float>::bits(keys.at(b, t, h, d)), Element<float>::bits(before.at(b, t, h, d)));
      }
      EXPECT_NE(keys.at(b, t, h, 23), before.at(b, t, h, 23));
    });
  });
}

TEST_F(Rerotate, reads_and_writes_the_output_pairing) {
  RotarySpec spec = spec_of(10000);
  spec.pairing = Pairing::interleaved;
  spec.output_pairing = Pairing::half;
  RotarySpec other_input = spec;
  other_input.pairing = Pairing::half;
  const Moving m = moving(spec, positions_from(3), other_input, positions_from(90));
  const Extents shape = {batch, tokens, 3, 47};
  on_every_target([&] { check_rerotate<Float16>(m, shape, contiguous_strides(shape)); });
}

TEST_F(Rerotate, widths_beyond_a_block_of_rows_and_in_place_beyond_the_buffer_across_pairings) {
  RotarySpec spec{.head_dim = 4500};
  spec.pairing = Pairing::interleaved;
  spec.output_pairing = Pairing::half;
  RotarySpec to = spec;
  to.base = 500;
  const Moving m = {{make_rotary(spec), positions_from(3)}, {make_rotary(to), positions_from(8)}, 1, 5};
  const Extents shape = {1, 5, 2, 4500};
  on_every_target([&] { check_rerotate<float>(m, shape, contiguous_strides(shape)); });
}

TEST_F(Rerotate, inverse_moves_back_and_is_bitwise_the_move_with_from_and_to_exchanged) {
  const std::vector<std::int64_t> a = whole_positions(100, 1);
  const std::vector<std::int64_t> b = whole_positions(-900, 2);
  for (const Change& change : changes()) {
    SCOPED_TRACE(change.name);
    Moving m = moving(change.from, positions(a.data(), batch, tokens), change.to, positions(b.data(), batch, tokens));
    const Moving back = {m.to, m.from, batch, tokens};
    m.direction = Direction::inverse;
    on_every_target([&] {
      const reference::Rows<float> rows = rows_by_probe<float>(m);
      const reference::Rows<float> wanted = rows_by_probe<float>(back);
      EXPECT_TRUE(same_bits(rows.cos[0], wanted.cos[0]));
      EXPECT_EQ(rows.sin[0], wanted.sin[0]);
    });
  }
}

TEST_F(Rerotate, tasks_of_any_runner_give_the_same_bits) {
  const Runner backwards = {[](void*, std::int64_t count, void (*task)(void*, std::int64_t), void* context) {
                              for (std::int64_t i = count; i-- > 0;) task(context, i);
                            },
                            nullptr};
  const std::vector<std::int64_t> per_batch = {5, 6, 7};
  const Positions shifted = {.data = per_batch.data(), .shape = {1, 3, 700}, .strides = {0, 1, 0}};
  const RotatedAt from = {make_rotary(spec_of(10000)), shifted};
  const RotatedAt to = {make_rotary(spec_of(500)), positions_from(-4)};
  Tensor<float> keys({3, 700, 3, 47}, 8);
  keys.with_numbers(3, 42);
  Tensor<float> other = keys;
  ASSERT_TRUE(rerotate(keys.view(), from, to).ok());
  ASSERT_TRUE(rerotate(other.view(), from, to, {.execution = {.runner = backwards}}).ok());
  EXPECT_TRUE(same_bits(keys.memory, other.memory));
}

}  // namespace
}  // namespace phasor::test
