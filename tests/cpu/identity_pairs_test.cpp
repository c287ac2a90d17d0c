// SPDX-License-Identifier: Apache-2.0
// Pairs that do not turn among pairs that do: left bit for bit, NaN with payloads too, in every dtype, pairing and place.
#include "ops/rotary/rotary_call.hpp"

namespace phasor::test {
namespace {

using IdentityPairs = EveryTarget;

/// Every `period`-th pair rests.
RotarySpec spec_of(std::int64_t pairs, std::int64_t period) {
  std::vector<double> frequencies;
  for (std::int64_t i = 0; i < pairs; ++i) frequencies.push_back(i % period == 0 ? 0.0 : 1.0 / static_cast<double>(i + 1));
  RotarySpec spec{.head_dim = 2 * pairs + 3, .rotary_width = 2 * pairs, .rotary_offset = 2};
  spec.scaling = GivenFrequencies{.frequencies = frequencies};
  return spec;
}

template <class T>
void check_resting(const RotarySpec& spec, std::int64_t period) {
  const reference::Geometry g = geometry_of(spec);
  const Rotary rotary = make_rotary(spec);
  const auto rows = rows_of<typename Element<T>::Value>(rotary, {positions_from(1), 1, 5});
  Tensor<T> in({2, 5, 3, spec.head_dim}, 2);
  Tensor<T> numbers = in;
  numbers.with_numbers(g.offset, g.width);
  in.each_head([&](std::int64_t b, std::int64_t t, std::int64_t h) {
    for (std::int64_t i = 0; i < g.width / 2; ++i) {
      if (i % period == 0) continue;  // odd bits stay in the pairs that rest
      for (const int lane : {0, 1}) {
        const std::int64_t d = g.offset + reference::channel(g.read, g.width, i, lane);
        in.at(b, t, h, d) = numbers.at(b, t, h, d);
      }
    }
  });
  Tensor<T> out({2, 5, 3, spec.head_dim}, 3);
  Tensor<T> wanted = out;
  rotate_reference(in, wanted, g, rows);
  ASSERT_TRUE(rotary.apply({in.view(), out.view()}, positions_from(1)).ok());
  EXPECT_TRUE(same_bits(out.memory, wanted.memory)) << "out of place";
  Tensor<T> in_place = in;
  rotate_reference(in, in_place, g, rows);
  ASSERT_TRUE(rotary.apply(in.view(), positions_from(1)).ok());
  EXPECT_TRUE(same_bits(in.memory, in_place.memory)) << "in place";
}

TEST_F(IdentityPairs, are_left_bit_for_bit_among_pairs_that_turn) {
  on_every_target([&] {
    for (const Pairing read : {Pairing::half, Pairing::interleaved}) {
      for (const Pairing write : {Pairing::half, Pairing::interleaved}) {
        for_each_dtype([&](auto tag) {
          for (const std::int64_t pairs : {5, 64, 1030}) {  // the last has more that rest than are put back one by one
            for (const std::int64_t period : {3, 7}) {
              RotarySpec spec = spec_of(pairs, period);
              spec.pairing = read;
              spec.output_pairing = write;
              check_resting<typename decltype(tag)::type>(spec, period);
            }
          }
        });
      }
    }
  });
}

}  // namespace
}  // namespace phasor::test
