// SPDX-License-Identifier: Apache-2.0
// The rotation whose hash is the same on every target, compiler, CPU and GPU: its cases, its input (integers only, no libm), its hash.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "phasor/rotary.hpp"

namespace phasor::hash {

using u64 = std::uint64_t;

inline u64 mix(u64 hash, u64 value) {
  hash ^= value;
  hash *= 0x9E3779B97F4A7C15ULL;
  return hash ^ (hash >> 29);
}

/// splitmix64.
class Random {
 public:
  explicit Random(u64 seed) : state_(seed) {}
  u64 operator()() {
    u64 z = state_ += 0x9E3779B97F4A7C15ULL;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    return z ^ (z >> 31);
  }

 private:
  u64 state_;
};

enum class PositionKind : std::uint8_t { consecutive, random, around_zero, fractional };

/// (1, kTokens, kHeads, head_dim), contiguous, out of place. Awkward on purpose: two blocks of rows and three, an odd number of heads.
inline constexpr std::int64_t kTokens = 67;
inline constexpr std::int64_t kHeads = 3;

struct Case {
  RotarySpec spec;
  DType dtype;
  PositionKind positions;
  Direction direction;
  u64 seed;
};

inline Extents shape_of(const Case& c) { return {1, kTokens, kHeads, c.spec.head_dim}; }
inline std::size_t elements_of(const Case& c) { return static_cast<std::size_t>(kTokens * kHeads * c.spec.head_dim); }

struct Size {
  std::int64_t head_dim;
  std::int64_t width;
  std::int64_t offset;
};

/// Every dtype x pairing x width x kind of position x scaling; the direction alternates.
inline std::vector<Case> cases() {
  constexpr Size kSizes[] = {{128, 128, 0}, {96, 80, 8}, {42, 34, 3}};
  constexpr Direction kDirections[] = {Direction::forward, Direction::inverse, Direction::transpose};
  const Scaling scalings[] = {Llama3Scaling{}, YarnScaling{.factor = 40, .original_length = 4096, .mscale = 1.0, .mscale_all_dim = 0.707}};
  std::vector<Case> all;
  for (const Size& size : kSizes) {
    for (const Scaling& scaling : scalings) {
      for (int i = 0; i < 4 * 4 * 4; ++i) {
        RotarySpec spec{
            .head_dim = size.head_dim, .rotary_width = size.width, .rotary_offset = size.offset, .base = 500000, .scaling = scaling};
        spec.pairing = static_cast<Pairing>(i & 1);
        spec.output_pairing = static_cast<Pairing>(i >> 1 & 1);
        all.push_back({spec, static_cast<DType>(i >> 2 & 3), static_cast<PositionKind>(i >> 4), kDirections[all.size() % 3], all.size()});
      }
    }
  }
  return all;
}

/// Float bits from a random number: any sign and significand, magnitudes from 2^-12 to 2^7; one in 32 a zero, one in 32 subnormal.
inline u64 float_bits(u64 random, int exponent_bits, int significand_bits) {
  const u64 bias = (u64{1} << (exponent_bits - 1)) - 1;
  const u64 sign = (random & 1) << (exponent_bits + significand_bits);
  const u64 significand = random >> 12 & ((u64{1} << significand_bits) - 1);
  const u64 rare = random >> 1 & 31;
  if (rare == 0) return sign;
  if (rare == 1) return sign | significand;
  return sign | (bias - 12 + (random >> 6 & 63) % 20) << significand_bits | significand;
}

template <class Bits>
void fill_bits(const Case& c, int exponent_bits, int significand_bits, std::vector<std::byte>& bytes) {
  Random random(c.seed);
  for (std::size_t i = 0; i < elements_of(c); ++i) {
    const Bits bits = static_cast<Bits>(float_bits(random(), exponent_bits, significand_bits));
    std::memcpy(bytes.data() + i * sizeof(Bits), &bits, sizeof(Bits));
  }
}

/// The input's bytes.
inline std::vector<std::byte> input_of(const Case& c) {
  std::vector<std::byte> bytes(elements_of(c) * static_cast<std::size_t>(bytes_of(c.dtype)));
  switch (c.dtype) {
    case DType::f32:
      fill_bits<std::uint32_t>(c, 8, 23, bytes);
      break;
    case DType::f64:
      fill_bits<std::uint64_t>(c, 11, 52, bytes);
      break;
    case DType::f16:
      fill_bits<std::uint16_t>(c, 5, 10, bytes);
      break;
    case DType::bf16:
      fill_bits<std::uint16_t>(c, 8, 7, bytes);
      break;
  }
  return bytes;
}

/// Whole positions, kTokens of them; those of a fractional case are eighths to 2^-20ths (fractions_of).
inline std::vector<std::int64_t> positions_of(const Case& c) {
  Random random(~c.seed);
  std::vector<std::int64_t> all;
  for (std::int64_t t = 0; t < kTokens; ++t) {
    const u64 r = random();
    if (c.positions == PositionKind::consecutive) all.push_back(1000003 + t);
    if (c.positions == PositionKind::around_zero) all.push_back(t - 40);
    // Every size, and both signs: an arithmetic shift.
    if (c.positions == PositionKind::random) all.push_back(static_cast<std::int64_t>(r) >> (r & 63));
    if (c.positions == PositionKind::fractional) all.push_back(static_cast<std::int64_t>(r) >> (12 + (r & 31)));
  }
  return all;
}

/// The same as float64; exact, for a fractional case has at most 52 bits.
inline std::vector<double> fractions_of(const Case& c) {
  std::vector<double> all;
  for (const std::int64_t n : positions_of(c)) all.push_back(static_cast<double>(n) * (n % 2 != 0 ? 0x1p-20 : 0x1p-3));
  return all;
}

/// Whether a value is NaN, from its bits. None must occur.
inline bool is_nan(u64 bits, DType dtype) {
  const u64 infinity = dtype == DType::f64 ? u64{0x7ff} << 52 : dtype == DType::f32 ? 0x7f800000 : dtype == DType::f16 ? 0x7c00 : 0x7f80;
  const u64 sign = u64{1} << (8 * bytes_of(dtype) - 1);
  return (bits & (sign - 1)) > infinity;
}

/// The output's hash, begun with `hash`; sets `nan` when a value is one.
inline u64 hash_of(const Case& c, const std::byte* output, u64 hash, bool& nan) {
  const std::size_t size = static_cast<std::size_t>(bytes_of(c.dtype));
  for (std::size_t i = 0; i < elements_of(c); ++i) {
    u64 bits = 0;  // assembled by value, so that the order of bytes in memory does not matter
    if (size == 8) {
      std::memcpy(&bits, output + i * size, 8);
    } else if (size == 4) {
      std::uint32_t word = 0;
      std::memcpy(&word, output + i * size, 4);
      bits = word;
    } else {
      std::uint16_t word = 0;
      std::memcpy(&word, output + i * size, 2);
      bits = word;
    }
    nan = nan || is_nan(bits, c.dtype);
    hash = mix(hash, bits);
  }
  return hash;
}

}  // namespace phasor::hash
