// SPDX-License-Identifier: Apache-2.0
// Where the vectors of a team's threads are, and how they are read and written.
#pragma once

#include <cstdint>

#include "cuda/teams/shape.hpp"
#include "cuda/tuning.hpp"

namespace phasor::cuda {

/// 16 bytes, the widest access of one thread.
struct alignas(16) Words {
  std::uint32_t at[4];
};

template <bool streams>
PHASOR_HD inline Words load_words(const std::byte* from) {
#ifdef __CUDA_ARCH__
  const auto* const p = reinterpret_cast<const uint4*>(from);
  const uint4 v = streams ? __ldcs(p) : *p;
  return {{v.x, v.y, v.z, v.w}};
#else
  return *reinterpret_cast<const Words*>(from);
#endif
}
template <bool streams>
PHASOR_HD inline void store_words(std::byte* to, const Words& words) {
#ifdef __CUDA_ARCH__
  auto* const p = reinterpret_cast<uint4*>(to);
  const uint4 v = make_uint4(words.at[0], words.at[1], words.at[2], words.at[3]);
  streams ? __stcs(p, v) : static_cast<void>(*p = v);
#else
  *reinterpret_cast<Words*>(to) = words;
#endif
}

/// Makes the compiler forget what it knows of a number: what follows from it is computed anew, not kept in registers over the sines.
PHASOR_HD inline void forget(int& number) {
#ifdef __CUDA_ARCH__
  asm volatile("" : "+r"(number));
#else
  (void)number;
#endif
}
/// Keeps loaded words as they are until here. Widened before the sines, they take twice the registers, are spilled, and a spill waits for
/// its load.
PHASOR_HD inline void still_narrow(Words& words) {
#ifdef __CUDA_ARCH__
  asm volatile("" : "+r"(words.at[0]), "+r"(words.at[1]), "+r"(words.at[2]), "+r"(words.at[3]));
#else
  (void)words;
#endif
}
/// The same, by an empty instruction that needs a sine.
PHASOR_HD inline void still_narrow(Words& words, float sine) {
#ifdef __CUDA_ARCH__
  asm("" : "+r"(words.at[0]), "+r"(words.at[1]), "+r"(words.at[2]), "+r"(words.at[3]) : "f"(sine));
#else
  (void)words;
  (void)sine;
#endif
}

/// A thread of a team: which of the group's first heads it has, and which vectors of every head.
struct Spot {
  int row;
  int vector;
  bool works;
};
template <class Knows>
PHASOR_HD inline Spot spot_of(const TeamShape& shape, const TeamPlace& place, int thread) {
  if constexpr (Knows::plain) return {thread / Knows::vectors, thread % Knows::vectors, true};
  const int row = (thread * shape.vector_inverse) >> 16;
  const int vector = thread - row * shape.vectors;
  return {row, vector, row < shape.rows && vector * Knows::width < place.pairs};
}

/// First pair of a pair's segment.
PHASOR_HD inline int segment_of(const TeamShape& shape, int pair) { return ((pair * shape.segment_inverse) >> 16) * shape.segment_pairs; }

/// Bytes from a head's beginning to the first of a thread's two vectors (the two lanes of `width` pairs, or twice both lanes of half as
/// many), and from the first to the second.
template <class Knows, Pairing pairing>
PHASOR_HD inline int first_vector(const TeamShape& shape, const TeamPlace& place, int vector) {
  constexpr int kSize = static_cast<int>(bytes_of(Knows::dtype));
  const int pair = place.first_pair + vector * Knows::width;
  if constexpr (pairing == Pairing::interleaved) return shape.first_byte + (place.first_pair + pair) * kSize;
  return shape.first_byte + (pair + (Knows::plain ? 0 : segment_of(shape, pair))) * kSize;
}
template <DType dtype, Pairing pairing>
PHASOR_HD inline int second_vector(const TeamShape& shape, const TeamPlace& place) {
  return pairing == Pairing::half ? shape.half_bytes : place.pairs * static_cast<int>(bytes_of(dtype));
}
/// Which of a slice's pairs the first of part 0 or 1 of a thread's vectors is; a part has half a vector's pairs.
template <class Knows, Pairing pairing>
PHASOR_HD inline int first_of_part(const TeamPlace& place, int vector, int part) {
  constexpr int width = Knows::width;
  return pairing == Pairing::half ? vector * width + part * (width / 2) : part * (place.pairs / 2) + vector * (width / 2);
}

/// Heads of a token, from `head` on: those of q, then those of k.
template <class Byte>
struct HeadsAt {
  Byte* q;
  Byte* k;
  int head;
  int first_heads;

  /// The head `apart` further on, which is `bytes` away if it is of the same tensor.
  PHASOR_HD Byte* at(int apart, int bytes) const { return (head + apart < first_heads ? q : k) + bytes; }
};
PHASOR_HD inline int64_t token_byte(const TeamPlace& place, unsigned batch_stride, unsigned token_stride) {
  const math::u64 vectors =
      math::u64{static_cast<unsigned>(place.batch)} * batch_stride + math::u64{static_cast<unsigned>(place.token)} * token_stride;
  return static_cast<int64_t>(vectors * static_cast<math::u64>(kVectorBytes));
}
/// `byte` of each head.
PHASOR_HD inline HeadsAt<const std::byte> heads_read(const TeamShape& s, const TeamPlace& place, int head, int byte) {
  return {s.in[0] + token_byte(place, s.in_batch[0], s.in_token[0]) + (head * s.in_head + byte),
          s.in[1] + token_byte(place, s.in_batch[1], s.in_token[1]) + ((head - s.first_heads) * s.in_head + byte), head, s.first_heads};
}
PHASOR_HD inline HeadsAt<std::byte> heads_written(const TeamShape& s, const TeamPlace& place, int head, int byte) {
  return {s.out[0] + token_byte(place, s.out_batch[0], s.out_token[0]) + (head * s.out_head + byte),
          s.out[1] + token_byte(place, s.out_batch[1], s.out_token[1]) + ((head - s.first_heads) * s.out_head + byte), head, s.first_heads};
}

}  // namespace phasor::cuda
