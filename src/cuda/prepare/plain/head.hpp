// SPDX-License-Identifier: Apache-2.0
// A head of 128 channels of 16 bits by eight threads: each has a vector of its first half and the same of its second, so that a head's
// accesses are whole lines of memory and both lanes of a pair are in one thread. A head stays narrow, in eight words, from step to step.
#pragma once

#include "cuda/prepare/squads/store.hpp"
#include "cuda/teams/turn.hpp"

namespace phasor::cuda {

constexpr int kPlainChannels = 128;
constexpr int kPlainPairs = kPlainChannels / 2;
constexpr int kPlainLanes = 8;                   // threads of a head
constexpr int kMostTogether = 3;                 // tokens of a block that walks: a thread makes a sine of one of them
constexpr int kPlainWidth = 8;                   // channels of a vector
constexpr int kPlainHalfBytes = kPlainChannels;  // from a thread's first vector to its second, in 16 bits

/// What a kernel knows before it runs. `each`: heads of a thread. `codes`: whether some of the caches hold e4m3. `walks`: a block has many
/// tokens, one after the other.
template <DType dtype_, int each_, bool norms_, bool codes_, bool walks_ = false>
struct PlainKnows {
  static constexpr DType dtype = dtype_;
  static constexpr int each = each_;
  static constexpr bool norms = norms_;
  static constexpr bool codes = codes_;
  static constexpr bool walks = walks_;
  static constexpr bool few = each == 1;  // tokens: each waits for memory; else there are others to do meanwhile, if registers are few
  static constexpr bool holds_weights = norms && few;
};

/// Cosines and sines of a token's row by (which half of a lane's pairs, lane, pair): threads that read neighbours hit all banks.
struct alignas(16) PlainShared {
  float cos[kPlainPairs];
  float sin[kPlainPairs];
  std::byte* out[job::kPrepareOperands];  // where the token goes; null: nowhere
};
/// Of a block that walks: of the tokens that it has together and of its next ones, so that nobody waits for those who have not turned
/// theirs yet.
struct PlainWalk {
  PlainShared rows[2][kMostTogether];
};
PHASOR_HD constexpr int tokens_together(int threads) {
  return threads / kPlainPairs < kMostTogether ? threads / kPlainPairs : kMostTogether;
}
PHASOR_HD constexpr int value_at(int pair) { return ((pair >> 2 & 1) * kPlainLanes + (pair >> 3)) * 4 + (pair & 3); }

/// Four numbers, read at once.
struct alignas(16) FourFloats {
  float at[4];
};
/// The values of a thread's eight pairs.
struct PlainValues {
  FourFloats cos[2];
  FourFloats sin[2];

  PHASOR_HD PlainValues(const PlainShared& shared, int lane) {
    unrolled<2>([&](auto half) {
      cos[half] = reinterpret_cast<const FourFloats*>(shared.cos)[half * kPlainLanes + lane];
      sin[half] = reinterpret_cast<const FourFloats*>(shared.sin)[half * kPlainLanes + lane];
    });
  }
  PHASOR_HD CosSin<float> of(int pair) const { return {cos[pair / 4].at[pair % 4], sin[pair / 4].at[pair % 4]}; }
};

/// A word's two numbers.
template <DType dtype>
struct TwoFloats {
  float low;
  float high;
  PHASOR_HD explicit TwoFloats(std::uint32_t word)
      : low(Element<dtype>::widen(static_cast<std::uint16_t>(word))), high(Element<dtype>::widen(static_cast<std::uint16_t>(word >> 16))) {}
};
/// Products of two words' numbers, rounded. The machine's product of 16 bits is float32's, which is exact, rounded once.
template <DType dtype>
PHASOR_HD inline std::uint32_t times_weights(std::uint32_t normed, std::uint32_t weights) {
#ifdef __CUDA_ARCH__
  std::uint32_t product;
  if constexpr (dtype == DType::f16) {
    asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(product) : "r"(normed), "r"(weights));
  } else {
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(product) : "r"(normed), "r"(weights), "r"(0x80008000U));  // -0 leaves every product as it is
  }
  return product;
#else
  const TwoFloats<dtype> x(normed);
  const TwoFloats<dtype> w(weights);
  return Element<dtype>::narrow(x.low * math::applied_weight(w.low, false), x.high * math::applied_weight(w.high, false));
#endif
}

/// Two vectors of weights, as a head has its channels.
PHASOR_HD inline TwoVectors two_vectors(const std::byte* first) {
  return {load_words<false>(first), load_words<false>(first + kPlainHalfBytes)};
}

/// A thread's part of one head.
template <DType dtype>
struct PlainHead {
  TwoVectors words;

  /// Rounded before the weight and behind it.
  PHASOR_HD void norm(float factor, const TwoVectors& weights) {
    const auto normed = [&](std::uint32_t word, std::uint32_t weight) {
      const TwoFloats<dtype> x(word);
      return times_weights<dtype>(Element<dtype>::narrow(x.low * factor, x.high * factor), weight);
    };
    unrolled<4>([&](auto k) {
      words.first.at[k] = normed(words.first.at[k], weights.first.at[k]);
      words.second.at[k] = normed(words.second.at[k], weights.second.at[k]);
    });
  }

  /// A pair that rests is left bit for bit.
  template <bool rests>
  PHASOR_HD void turn_by(const PlainValues& values) {
    unrolled<4>([&](auto k) {
      const TwoFloats<dtype> x(words.first.at[k]);
      const TwoFloats<dtype> y(words.second.at[k]);
      float a[2] = {x.low, x.high};
      float b[2] = {y.low, y.high};
      unrolled<2>([&](auto i) {
        const CosSin<float> by = values.of(2 * k + i);
        if (!rests || !math::is_identity(by.cos, by.sin)) turn(a[i], b[i], by);
      });
      words.first.at[k] = Element<dtype>::narrow(a[0], a[1]);
      words.second.at[k] = Element<dtype>::narrow(b[0], b[1]);
    });
  }

  /// `half`: bytes from the first half to the second.
  PHASOR_HD void store(std::byte* to, int half) const {
    store_words<false>(to, words.first);
    store_words<false>(to + half, words.second);
  }
  /// As e4m3; `scaled(x)` is what a value is stored as.
  template <class Scaled>
  PHASOR_HD void store_codes(std::byte* to, int half, const Scaled& scaled) const {
    const auto put = [&](const Words& from, std::byte* where) {
      Vector<std::uint32_t, 2> codes = {};
      unrolled<4>([&](auto k) {
        const TwoFloats<dtype> x(from.at[k]);
        codes.at[k / 2] |= two_codes<Storage::f8_e4m3>(scaled(x.low), scaled(x.high)) << (k % 2 * 16);
      });
      *reinterpret_cast<Vector<std::uint32_t, 2>*>(where) = codes;
    };
    put(words.first, to);
    put(words.second, to + half);
  }
};

}  // namespace phasor::cuda
