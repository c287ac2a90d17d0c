// SPDX-License-Identifier: Apache-2.0
// How a thread's part of a head gets to a cache: by vectors where its channels are neighbours there, else one by one.
#pragma once

#include "cuda/prepare/squads/head.hpp"

namespace phasor::cuda {

/// A head's place in a cache.
struct SinkPlace {
  const SquadOperand& operand;
  std::byte* to;

  PHASOR_HD int64_t offset(int channel) const {
    const int shift = operand.out_shift;
    return int64_t{channel >> shift} * operand.out_outer + (channel & ((1 << shift) - 1)) * operand.out_inner;
  }
  PHASOR_HD std::byte* at(int channel) const { return to + offset(channel); }
};

/// A vector's elements, of `size` bytes each, from the words that hold them.
template <int size, int count>
PHASOR_HD inline void put(const std::uint32_t* words, const SinkPlace& place, int channel) {
  constexpr int kOfWord = 4 / size;
  unrolled<count>([&](auto i) {
    const std::uint32_t bits = words[i / kOfWord] >> (i % kOfWord * size * 8);
    std::byte* const to = place.at(channel + i);
    if constexpr (size == 4) *reinterpret_cast<std::uint32_t*>(to) = bits;
    if constexpr (size == 2) *reinterpret_cast<std::uint16_t*>(to) = static_cast<std::uint16_t>(bits);
    if constexpr (size == 1) *to = static_cast<std::byte>(bits);
  });
}
template <DType dtype>
PHASOR_HD inline void put_words(const Words& words, const SinkPlace& place, int channel) {
  if (place.operand.by_vectors) return store_words<false>(place.at(channel), words);
  put<static_cast<int>(bytes_of(dtype)), Squad<dtype>::kWidth>(words.at, place, channel);
}

/// Nothing has happened to it.
template <DType dtype, int vectors, bool norms>
PHASOR_HD inline void copy_head(const SquadHead<dtype, vectors, norms>& head, const SinkPlace& place) {
  unrolled<vectors>([&](auto v) { put_words<dtype>(head.words[v], place, head.channel(v, head.spot.lane)); });
}

/// Two numbers of 8 bits, the first in the low byte.
template <Storage storage>
PHASOR_HD inline std::uint32_t two_codes(float first, float second) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
  // The machine's own conversions: the same codes as math's, but for a NaN's sign.
  std::uint16_t codes = 0;
  if constexpr (storage == Storage::f8_e4m3) {
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(codes) : "f"(second), "f"(first));
    return codes;
  } else if constexpr (storage == Storage::f8_e5m2) {
    asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(codes) : "f"(second), "f"(first));
    return codes;
  }
#endif
  return job::stored_bits(storage, first) | job::stored_bits(storage, second) << 8;
}
template <Storage storage, int width>
PHASOR_HD inline void put_codes(const float* x, const SinkPlace& place, int channel) {
  std::uint32_t codes[width / 4] = {};
  unrolled<width / 2>([&](auto i) { codes[i / 2] |= two_codes<storage>(x[2 * i], x[2 * i + 1]) << (i % 2 * 16); });
  if (!place.operand.by_vectors) return put<1, width>(codes, place, channel);
  auto* const to = reinterpret_cast<std::uint32_t*>(place.at(channel));
  unrolled<width / 4>([&](auto i) { to[i] = codes[i]; });
}
template <DType dtype>
PHASOR_HD inline void put_values(const float* x, const SinkPlace& place, int channel) {
  constexpr int kPart = Squad<dtype>::kWidth / 2;
  Words words;
  unrolled<2>([&](auto part) {
    EightBytes<dtype> values;
    unrolled<kPart>([&](auto i) { values.at[i] = x[part * kPart + i]; });
    values.write(words.at[2 * part], words.at[2 * part + 1]);
  });
  put_words<dtype>(words, place, channel);
}

/// What a value is divided by or multiplied with, and one divided by it.
struct AppliedScale {
  float by;
  float reciprocal;
};
/// `halves`: the values are numbers of 16 bits.
template <int count>
PHASOR_HD inline void scale_values(float (&x)[count], const SquadOperand& operand, const AppliedScale& scale, bool halves) {
  const bool codes = bytes_of(operand.storage) == 1;
  if (operand.multiplies) {
    unrolled<count>([&](auto i) { x[i] = x[i] * scale.by; });
  } else if (codes && halves && math::has_short_quotients(scale.by)) {
    unrolled<count>([&](auto i) { x[i] = math::short_quotient(x[i], scale.by, scale.reciprocal); });
  } else if (codes && math::has_quotients(scale.by)) {
    unrolled<count>([&](auto i) { x[i] = math::quotient(x[i], scale.by, scale.reciprocal); });
  } else {
    unrolled<count>([&](auto i) { x[i] = x[i] / scale.by; });
  }
}

/// The scale that a head's values have, which is written where it was made of them.
PHASOR_HD inline float scale_of(const job::PrepareSink& sink, const job::TokenPlace& place, const SquadSpot& spot, float most) {
  if (sink.scales == CacheScales::Kind::made) {
    const job::MadeScale made = job::made_scale_of(sink, most);
    std::byte* const to =
        sink.scale_data + place.block * sink.scale_strides[0] + place.token * sink.scale_strides[1] + spot.head * sink.scale_strides[2];
    if (spot.lane == 0) job::write_scale(sink, made, to);
    return made.applied;
  }
  if (sink.scale_data == nullptr) return sink.scale;
  return *reinterpret_cast<const float*>(sink.scale_data + spot.head * sink.scale_strides[2]);
}

/// A vector of values, whatever the storage is.
template <DType dtype>
PHASOR_HD inline void put_stored(const float* x, const SinkPlace& place, int channel) {
  constexpr int kWidth = Squad<dtype>::kWidth;
  switch (place.operand.storage) {
    case Storage::f8_e4m3:
      return put_codes<Storage::f8_e4m3, kWidth>(x, place, channel);
    case Storage::f8_e5m2:
      return put_codes<Storage::f8_e5m2, kWidth>(x, place, channel);
    case Storage::i8:
      return put_codes<Storage::i8, kWidth>(x, place, channel);
    default:
      return put_values<dtype>(x, place, channel);
  }
}

template <DType dtype, int vectors, bool norms>
PHASOR_HD inline void store_head(const SquadHead<dtype, vectors, norms>& head, const SinkPlace& place) {
  using Head = SquadHead<dtype, vectors, norms>;
  const auto each_vector = [&](const auto& put_vector) {
    unrolled<vectors>([&](auto v) { put_vector(head.x + v * Head::kWidth, Head::channel(v, head.spot.lane)); });
  };
  switch (place.operand.storage) {
    case Storage::f8_e4m3:
      return each_vector([&](const float* x, int channel) { put_codes<Storage::f8_e4m3, Head::kWidth>(x, place, channel); });
    case Storage::f8_e5m2:
      return each_vector([&](const float* x, int channel) { put_codes<Storage::f8_e5m2, Head::kWidth>(x, place, channel); });
    case Storage::i8:
      return each_vector([&](const float* x, int channel) { put_codes<Storage::i8, Head::kWidth>(x, place, channel); });
    default:
      return each_vector([&](const float* x, int channel) { put_values<dtype>(x, place, channel); });
  }
}

}  // namespace phasor::cuda
