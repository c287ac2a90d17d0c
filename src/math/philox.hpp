// SPDX-License-Identifier: Apache-2.0
// Philox 4x32-10 (Salmon and others, 2011): numbers that are a function of a counter and a key. And what dropout takes from them: which
// bits of counter and key are what is part of the library's surface (Dropout in attention.hpp), the same for every backend.
#pragma once

#include "math/portable.hpp"

namespace phasor::math {

struct PhiloxKey {
  u32 word[2];
};
struct PhiloxBlock {
  u32 word[4];
};

// No arrays: CUDA takes the values of constants to the device, not their memory.
constexpr u32 kPhiloxFactor0 = 0xD2511F53U;
constexpr u32 kPhiloxFactor1 = 0xCD9E8D57U;
constexpr u32 kPhiloxKeyStep0 = 0x9E3779B9U;
constexpr u32 kPhiloxKeyStep1 = 0xBB67AE85U;
constexpr int kPhiloxRounds = 10;

PHASOR_INLINE u32 low_word(u64 x) { return static_cast<u32>(x); }
PHASOR_INLINE u32 high_word(u64 x) { return static_cast<u32>(x >> 32); }

PHASOR_INLINE PhiloxBlock philox(PhiloxBlock counter, PhiloxKey key) {
#ifdef __CUDACC__
#pragma unroll
#else
#pragma GCC unroll 10
#endif
  for (int round = 0; round < kPhiloxRounds; ++round) {
    const u64 a = static_cast<u64>(kPhiloxFactor0) * counter.word[0];
    const u64 b = static_cast<u64>(kPhiloxFactor1) * counter.word[2];
    counter = {{high_word(b) ^ counter.word[1] ^ key.word[0], low_word(b), high_word(a) ^ counter.word[3] ^ key.word[1], low_word(a)}};
    key.word[0] += kPhiloxKeyStep0;
    key.word[1] += kPhiloxKeyStep1;
  }
  return counter;
}

// ---- Dropout ----

/// The key of a row of weights.
PHASOR_INLINE PhiloxKey dropout_row_key(u64 seed, i64 query_position, u32 head, u32 sequence) {
  const auto position = static_cast<u64>(query_position);
  const PhiloxBlock made =
      philox({{low_word(position), high_word(position), head, sequence}}, PhiloxKey{{low_word(seed), high_word(seed)}});
  return {{made.word[0], made.word[1]}};
}

/// Keys at four positions from a multiple of 4 on share a block: a word each.
PHASOR_INLINE i64 dropout_block(i64 key_position) { return key_position >> 2; }
PHASOR_INLINE int dropout_word(i64 key_position) { return static_cast<int>(key_position & 3); }
PHASOR_INLINE PhiloxBlock dropout_words(PhiloxKey row, i64 block, u64 offset) {
  const auto number = static_cast<u64>(block);
  return philox({{low_word(number), high_word(number), low_word(offset), high_word(offset)}}, row);
}

/// A weight is dropped where its word is below: floor(probability 2^32), probability in [0, 1).
PHASOR_INLINE u32 dropout_threshold(double probability) { return static_cast<u32>(probability * 4294967296.0); }
/// What kept weights are multiplied by, so that sums stay what they are on average.
PHASOR_INLINE double dropout_factor(double probability) { return 1 / (1 - probability); }

}  // namespace phasor::math
