// SPDX-License-Identifier: Apache-2.0
// Sums of squares of heads whose threads have a vector of each half (plain/head.hpp), by the norm's tree: 32 sums of every 32nd channel, in
// order, then those 16 apart are added, 8, and so on. Lanes 0 to 3 of a head have the first and third channels of eight sums each, lanes 4
// to 7 the second and fourth of the same sums: they swap. Then halves of what is left to add are left to the other lane of an addition.
#pragma once

#include "cuda/prepare/plain/head.hpp"

namespace phasor::cuda {

PHASOR_HD inline bool has_bit(int lane, int bit) { return (lane & bit) != 0; }
/// What a lane keeps and what it gives of two halves.
template <class T>
PHASOR_HD inline T kept(bool upper, T lower_half, T upper_half) {
  return upper ? upper_half : lower_half;
}

/// Squares of the four channels of a sum, of two sums at once: `own` and `swapped` are words of the first half of a head and of the second.
template <DType dtype>
PHASOR_HD inline void add_squares(bool upper, const std::uint32_t (&own)[2], const std::uint32_t (&swapped)[2], float* sums) {
  const TwoFloats<dtype> terms[4] = {TwoFloats<dtype>(own[0]), TwoFloats<dtype>(swapped[0]),  // in either order: the first sum is the same
                                     TwoFloats<dtype>(upper ? swapped[1] : own[1]), TwoFloats<dtype>(upper ? own[1] : swapped[1])};
  float low = terms[0].low * terms[0].low;
  float high = terms[0].high * terms[0].high;
  unrolled<3>([&](auto i) {
    low += terms[i + 1].low * terms[i + 1].low;
    high += terms[i + 1].high * terms[i + 1].high;
  });
  sums[0] = low;
  sums[1] = high;
}

/// Of one head or of two. Steps between which lanes swap `words` or `numbers`.
template <DType dtype, int heads>
struct PlainSums;

/// A lane makes four of the eight sums.
template <DType dtype>
struct PlainSums<dtype, 1> {
  std::uint32_t words[4];
  float sums[4];
  float numbers[4];

  PHASOR_HD void offer(int lane, const PlainHead<dtype> (&heads)[1]) {
    const bool upper = has_bit(lane, 4);
    const TwoVectors& own = heads[0].words;
    unrolled<2>([&](auto k) {
      words[k] = kept(!upper, own.first.at[k], own.first.at[k + 2]);
      words[k + 2] = kept(!upper, own.second.at[k], own.second.at[k + 2]);
    });
  }
  PHASOR_HD void square(int lane, const PlainHead<dtype> (&heads)[1]) {
    const bool upper = has_bit(lane, 4);
    const TwoVectors& own = heads[0].words;
    unrolled<2>([&](auto k) {
      add_squares<dtype>(upper, {kept(upper, own.first.at[k], own.first.at[k + 2]), kept(upper, own.second.at[k], own.second.at[k + 2])},
                         {words[k], words[k + 2]}, sums + 2 * k);
    });
  }
  template <class Block, class Held, class Of>
  static PHASOR_HD void fold(Block& block, Held& held, const Of& of) {
    const auto add = [&](auto apart) {
      block.each([&](int thread) { unrolled<4>([&](auto i) { of(held.of(thread)).numbers[i] = of(held.of(thread)).sums[i]; }); });
      block.template swap<decltype(apart)::value, 4>(held, [&](auto& state) { return of(state).numbers; });
      block.each([&](int thread) { unrolled<4>([&](auto i) { of(held.of(thread)).sums[i] += of(held.of(thread)).numbers[i]; }); });
    };
    add(std::integral_constant<int, 2>());  // sums 16 apart, 8, and 4
    add(std::integral_constant<int, 1>());
    add(std::integral_constant<int, 4>());
  }
  PHASOR_HD float sum() const { return (sums[0] + sums[2]) + (sums[1] + sums[3]); }
};

/// Lanes 0 to 3 make the sums of the first head, lanes 4 to 7 those of the second.
template <DType dtype>
struct PlainSums<dtype, 2> {
  std::uint32_t words[8];
  float sums[8];
  float numbers[4];

  PHASOR_HD void offer(int lane, const PlainHead<dtype> (&heads)[2]) {
    const bool upper = has_bit(lane, 4);
    unrolled<4>([&](auto k) {
      words[k] = kept(!upper, heads[0].words.first.at[k], heads[1].words.first.at[k]);
      words[k + 4] = kept(!upper, heads[0].words.second.at[k], heads[1].words.second.at[k]);
    });
  }
  PHASOR_HD void square(int lane, const PlainHead<dtype> (&heads)[2]) {
    const bool upper = has_bit(lane, 4);
    unrolled<4>([&](auto k) {
      add_squares<dtype>(upper,
                         {kept(upper, heads[0].words.first.at[k], heads[1].words.first.at[k]),
                          kept(upper, heads[0].words.second.at[k], heads[1].words.second.at[k])},
                         {words[k], words[k + 4]}, sums + 2 * k);
    });
  }
  /// Half of the sums of both lanes of an addition.
  template <int left>
  PHASOR_HD void give(bool upper) {
    unrolled<left>([&](auto i) {
      numbers[i] = kept(!upper, sums[i], sums[i + left]);
      sums[i] = kept(upper, sums[i], sums[i + left]);
    });
  }
  template <int count>
  PHASOR_HD void add() {
    unrolled<count>([&](auto i) { sums[i] += numbers[i]; });
  }
  template <class Block, class Held, class Of>
  static PHASOR_HD void fold(Block& block, Held& held, const Of& of) {
    const auto each = [&](const auto& body) { block.each([&](int thread) { body(of(held.of(thread)), thread % kPlainLanes); }); };
    const auto numbers = [&](auto& state) { return of(state).numbers; };
    each([](PlainSums& own, int lane) { own.give<4>(has_bit(lane, 2)); });  // sums 16 apart
    block.template swap<2, 4>(held, numbers);
    each([](PlainSums& own, int lane) {  // 8 apart
      own.add<4>();
      own.give<2>(has_bit(lane, 1));
    });
    block.template swap<1, 2>(held, numbers);
    const auto add_and_show = [](PlainSums& own, int /*lane*/) {
      own.add<2>();
      unrolled<2>([&](auto i) { own.numbers[i] = own.sums[i]; });
    };
    each(add_and_show);  // 4 apart
    block.template swap<2, 2>(held, numbers);
    each(add_and_show);  // 2 apart
    block.template swap<1, 2>(held, numbers);
    each([](PlainSums& own, int /*lane*/) { own.add<2>(); });
  }
  PHASOR_HD float sum() const { return sums[0] + sums[1]; }
};

}  // namespace phasor::cuda
