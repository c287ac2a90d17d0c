// SPDX-License-Identifier: Apache-2.0
// Tokens whose heads are turned in one go (cpu/rotary/loop.inl; eight of them on NEON): blocks of every length, broken by tokens that are
// left alone, in every dtype, pairing, width and layout, against the reference.
#include <cmath>

#include "ops/rotary/rotary_call.hpp"

namespace phasor::test {
namespace {

using TokensTogether = EveryTarget;

RotarySpec spec_of(std::int64_t pairs, Pairing pairing) { return {.head_dim = 2 * pairs, .pairing = pairing}; }

/// Around the 4 and 8 pairs of a register and the 8 to 32 of a line.
constexpr std::int64_t kWidths[] = {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 45, 64, 67};

TEST_F(TokensTogether, of_every_width_are_the_reference) {
  on_every_target([] {
    for_each_dtype([](auto tag) {
      for (const Pairing pairing : {Pairing::half, Pairing::interleaved}) {
        for (const std::int64_t pairs : kWidths) {
          check_apply<typename decltype(tag)::type>({spec_of(pairs, pairing), {1, 11, 2, 2 * pairs}, {positions_from(7), 1, 11}});
        }
      }
    });
  });
}

/// The origin, at which no pair turns, in every place of blocks of every length: it ends one and the next begins behind it.
TEST_F(TokensTogether, are_broken_by_a_token_at_the_origin) {
  on_every_target([] {
    for_each_dtype([](auto tag) {
      for (const std::int64_t tokens : {1, 2, 7, 8, 9, 16, 17, 33, 41}) {
        for (const std::int64_t first : {0, -1, -7, -8, -9, -40}) {
          const RotarySpec spec = spec_of(20, first % 2 == 0 ? Pairing::half : Pairing::interleaved);
          check_apply<typename decltype(tag)::type>({spec, {2, tokens, 3, 40}, {positions_from(first), 1, tokens}});
        }
      }
    });
  });
}

/// Tables in which single pairs of single tokens are left alone, whatever their bits; the same sine with another cosine is arithmetic.
template <class T>
void check_tables(Pairing pairing, std::int64_t pairs) {
  using V = typename Element<T>::Value;
  constexpr std::int64_t tokens = 43;
  Random random(5);
  reference::Rows<V> rows{1, tokens, pairs, {}, {}};
  for (const int lane : {0, 1}) {
    rows.cos[lane].resize(static_cast<std::size_t>(tokens * pairs));
    rows.sin[lane].resize(rows.cos[lane].size());
  }
  Tensor<T> x({1, tokens, 3, 2 * pairs}, 6);
  Tensor<T> numbers = x;
  numbers.with_numbers(0, 2 * pairs);
  for (std::int64_t t = 0; t < tokens; ++t) {
    for (std::int64_t i = 0; i < pairs; ++i) {
      const bool rests = t % 11 == 9 && i == (5 * t) % pairs;  // tokens 9, 20, 31, 42
      const bool mirrors = t % 13 == 12 && i == 0;
      const auto at = static_cast<std::size_t>(rows.index(0, t, i));
      const V angle = static_cast<V>(random.number());
      for (const int lane : {0, 1}) {
        rows.cos[lane][at] = rests ? V{1} : mirrors ? V{-1} : std::cos(angle);
        rows.sin[lane][at] = rests || mirrors ? V{0} : std::sin(angle);
        for (std::int64_t h = 0; h < 3 && !rests; ++h) {  // odd bits stay in the pairs that rest
          const std::int64_t d = reference::channel(pairing, 2 * pairs, i, lane);
          x.at(0, t, h, d) = numbers.at(0, t, h, d);
        }
      }
    }
  }
  Tensor<T> wanted = x;
  rotate_reference(x, wanted, {2 * pairs, 0, pairing, pairing}, rows);
  const Extents shape = {1, tokens, 1, pairs};
  TableLayout layout;
  layout.pairing = pairing;
  ASSERT_TRUE(
      apply_rotary(x.view(), view(std::as_const(rows.cos[0]).data(), shape), view(std::as_const(rows.sin[0]).data(), shape), layout).ok());
  EXPECT_TRUE(same_bits(x.memory, wanted.memory));
}

TEST_F(TokensTogether, leave_single_pairs_of_single_tokens_alone) {
  on_every_target([] {
    for_each_dtype([](auto tag) {
      for (const Pairing pairing : {Pairing::half, Pairing::interleaved}) {
        for (const std::int64_t pairs : {3, 16, 37, 64}) check_tables<typename decltype(tag)::type>(pairing, pairs);
      }
    });
  });
}

/// Tokens, heads and batch rows any way apart, a partial width, and the channels beside it.
TEST_F(TokensTogether, may_lie_anywhere) {
  on_every_target([] {
    for_each_dtype([](auto tag) {
      using T = typename decltype(tag)::type;
      for (const Pairing pairing : {Pairing::half, Pairing::interleaved}) {
        const RotarySpec spec{.head_dim = 53, .rotary_width = 46, .rotary_offset = 3, .pairing = pairing};
        const Rotary rotary = make_rotary(spec);
        const auto rows = rows_of<typename Element<T>::Value>(rotary, {positions_from(-3), 1, 19});
        // (B, H, T, D) in memory, heads backwards, and plain with gaps.
        const Extents shape = {2, 19, 3, 53};
        for (const Extents& strides : {Extents{3 * 19 * 53, 53, 19 * 53, 1}, Extents{5000, 180, -57, 1}, Extents{8000, 301, 71, 1}}) {
          Tensor<T> in(shape, strides, 8);
          in.with_numbers(3, 46);
          Tensor<T> out(shape, {19 * 3 * 60, 3 * 60, 60, 1}, 9);
          Tensor<T> wanted = out;
          rotate_reference(in, wanted, geometry_of(spec), rows);
          ASSERT_TRUE(rotary.apply({in.view(), out.view()}, positions_from(-3)).ok());
          EXPECT_TRUE(same_bits(out.memory, wanted.memory)) << "out of place";
          Tensor<T> in_place = in;
          rotate_reference(in, in_place, geometry_of(spec), rows);
          ASSERT_TRUE(rotary.apply(in.view(), positions_from(-3)).ok());
          EXPECT_TRUE(same_bits(in.memory, in_place.memory)) << "in place";
        }
      }
    });
  });
}

/// Segments: the same rotation as that of each by itself.
TEST_F(TokensTogether, may_have_segments) {
  on_every_target([] {
    for_each_dtype([](auto tag) {
      using T = typename decltype(tag)::type;
      for (const Pairing pairing : {Pairing::half, Pairing::interleaved}) {
        RotarySpec spec{.head_dim = 60, .pairing = pairing, .axes = {.sections = {10, 10, 10}, .ladder = AxisLadder::own}, .segments = 3};
        RotarySpec part{.head_dim = 20, .pairing = pairing};
        constexpr std::int64_t tokens = 21;
        std::vector<std::int64_t> at(3 * tokens);
        for (std::size_t i = 0; i < at.size(); ++i) at[i] = static_cast<std::int64_t>(i * i % 23) - 4;
        Tensor<T> x({1, tokens, 2, 60}, 12);
        x.with_numbers(0, 60);
        Tensor<T> wanted = x;
        for (std::int64_t s = 0; s < 3; ++s) {
          TensorView segment = wanted.view();
          segment.shape[3] = 20;
          segment.data = static_cast<T*>(segment.data) + 20 * s;
          const OnTarget scalar("scalar");
          ASSERT_TRUE(make_rotary(part).apply(segment, positions(at.data() + s * tokens, tokens)).ok());
        }
        ASSERT_TRUE(make_rotary(spec).apply(x.view(), positions(at.data(), 3, 1, tokens)).ok());
        EXPECT_TRUE(same_bits(x.memory, wanted.memory));
      }
    });
  });
}

}  // namespace
}  // namespace phasor::test
