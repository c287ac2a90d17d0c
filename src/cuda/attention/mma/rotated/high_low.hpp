// SPDX-License-Identifier: Apache-2.0
// A float32 number as two of bfloat16, a high and a low one, for tensor cores that multiply 16 bits: with p = 2^-17, x is high + low but
// for p |x|, since high keeps eight bits of it, the difference is exact, and low keeps eight bits and the sign of that. Only for numbers
// whose low ones are below bfloat16's least (|x| < 2^-117) it is 2^-134.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "math/elementary.hpp"

namespace phasor::cuda::attention {

using std::int64_t;

struct HighLow {
  math::u32 high;
  math::u32 low;
};
/// Of what is no number, infinite or rounds to infinity there is no difference.
PHASOR_HD inline HighLow high_low(float x) {
  const math::One<float> d;
  const math::u32 high = math::narrow_bf16(d, x);
  const float rest = x - math::widen_bf16(d, high);
  return {high, rest - rest == 0 ? math::narrow_bf16(d, rest) : math::u32{0}};
}

/// So many channels lie together in the place where they were float32: 16 bytes of high numbers, then those of their low ones.
constexpr int kHighLowChannels = 8;
struct alignas(16) HighLowWords {
  math::u32 word[kHighLowChannels];
};
/// Channels from kHighLowChannels n on of contiguous rows, in place.
PHASOR_HD inline void make_high_low(void* copy, int64_t n) {
  void* const place = __builtin_assume_aligned(static_cast<std::byte*>(copy) + n * static_cast<int64_t>(sizeof(HighLowWords)), 16);
  HighLowWords from;
  HighLowWords to = {};
  std::memcpy(&from, place, sizeof from);  // stored as float32, read as 16 bits: neither is a word
  for (int c = 0; c < kHighLowChannels; ++c) {
    const HighLow two = high_low(math::bit_cast<float>(from.word[c]));
    to.word[c / 2] |= two.high << 16 * (c % 2);
    to.word[kHighLowChannels / 2 + c / 2] |= two.low << 16 * (c % 2);
  }
  std::memcpy(place, &to, sizeof to);
}

}  // namespace phasor::cuda::attention
