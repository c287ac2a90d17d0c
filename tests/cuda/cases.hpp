// SPDX-License-Identifier: Apache-2.0
// What the CUDA proof rotates: specs, dtypes, pairings, directions and positions that together reach every rule of the rotation.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "phasor/rotary.hpp"

namespace proof {

enum class PositionKind { offset, i32, i64, f64 };

/// One rotation of q and k, which lie in one packed (B, T, Hq + Hk + 1, D) tensor; a stretch that nobody may touch follows them.
struct Case {
  std::string name;
  phasor::RotarySpec spec;
  phasor::DType dtype = phasor::DType::f32;
  phasor::Direction direction = phasor::Direction::forward;
  PositionKind positions = PositionKind::i64;

  static constexpr std::int64_t batch = 2;
  static constexpr std::int64_t tokens = 61;
  static constexpr std::int64_t query_heads = 3;
  static constexpr std::int64_t key_heads = 1;

  std::int64_t packed_heads() const { return query_heads + key_heads + 1; }
  std::int64_t elements() const { return batch * tokens * packed_heads() * spec.head_dim; }
};

inline std::vector<std::pair<std::string, phasor::RotarySpec>> specs() {
  using namespace phasor;
  const double turn = 6.283185307179586;
  return {
      {"llama3", {.head_dim = 128, .base = 500000, .scaling = Llama3Scaling{.factor = 8}}},
      {"partial", {.head_dim = 96, .rotary_width = 50, .rotary_offset = 7}},
      {"yarn", {.head_dim = 64, .base = 1e6, .scaling = YarnScaling{.factor = 4, .original_length = 32768}}},
      {"proportional", {.head_dim = 64, .scaling = ProportionalScaling{.share = 0.25}, .sense = Sense::clockwise}},
      {"given", {.head_dim = 12, .scaling = GivenFrequencies{.frequencies = {turn, 0, -1, 1e-9, -37.5, 3}, .amplitude = 0.75}}},
  };
}

/// Every spec in every dtype, pairing and direction; the kind of positions goes round.
inline std::vector<Case> cases() {
  using namespace phasor;
  std::vector<Case> all;
  for (const auto& [name, spec] : specs()) {
    for (DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
      for (int layout = 0; layout < 4; ++layout) {
        for (Direction direction : {Direction::forward, Direction::inverse, Direction::transpose}) {
          for (PositionKind kind : {PositionKind::offset, PositionKind::i32, PositionKind::i64, PositionKind::f64}) {
            Case c{name, spec, dtype, direction, kind};
            c.spec.pairing = static_cast<Pairing>(layout & 1);
            c.spec.output_pairing = static_cast<Pairing>(layout >> 1);
            all.push_back(c);
          }
        }
      }
    }
  }
  return all;
}

/// Bytes of q, k and the rest: finite numbers of every size that the dtype has, zeros of both signs and subnormals among them.
inline std::vector<std::uint8_t> make_input(const Case& c, std::mt19937_64& random) {
  using phasor::DType;
  const std::int64_t size = phasor::bytes_of(c.dtype);
  const std::uint64_t exponent = c.dtype == DType::f64   ? 0x7ffULL << 52
                                 : c.dtype == DType::f32 ? 0xffU << 23
                                 : c.dtype == DType::f16 ? 0x1fU << 10
                                                         : 0xffU << 7;
  const std::uint64_t top = exponent & (exponent >> 1 ^ exponent);  // cleared, so that sums stay finite
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(c.elements() * size));
  for (std::int64_t i = 0; i < c.elements(); ++i) {
    std::uint64_t bits = random();
    if (i % 29 == 0) bits &= std::uint64_t{1} << (8 * size - 1);                                                 // a zero of either sign
    if (i % 31 == 0) bits &= ~exponent;                                                                          // a subnormal
    if (i % 3 != 0) bits = (bits & ~exponent) | (exponent - top - (exponent & (~exponent + 1)) * (bits >> 61));  // near 1
    bits &= ~top;
    for (std::int64_t b = 0; b < size; ++b) bytes[static_cast<std::size_t>(i * size + b)] = static_cast<std::uint8_t>(bits >> (8 * b));
  }
  return bytes;
}

/// Positions of (B, T) and the memory they are in.
struct PositionData {
  std::vector<std::int32_t> i32;
  std::vector<std::int64_t> i64;
  std::vector<double> f64;
  std::int64_t offset = 0;
  PositionKind kind = PositionKind::offset;

  phasor::Positions view() const {
    const std::int64_t b = Case::batch;
    const std::int64_t t = Case::tokens;
    switch (kind) {
      case PositionKind::i32:
        return phasor::positions(i32.data(), b, t);
      case PositionKind::i64:
        return phasor::positions(i64.data(), b, t);
      case PositionKind::f64:
        return phasor::positions(f64.data(), b, t);
      case PositionKind::offset:
        break;
    }
    return phasor::positions_from(offset);
  }
};

/// Runs of consecutive positions, zeros, both signs and every magnitude; fractions for f64.
inline PositionData make_positions(PositionKind kind, std::mt19937_64& random) {
  PositionData p;
  p.kind = kind;
  p.offset = static_cast<std::int64_t>(random()) >> (random() % 60);
  if (p.offset % 4 == 0) p.offset = -20;  // passes 0
  for (std::int64_t i = 0; i < Case::batch * Case::tokens; ++i) {
    const std::int64_t any = static_cast<std::int64_t>(random()) >> (random() % 63);
    const std::int64_t position = i % 17 == 3 ? 0 : i % Case::tokens < 40 ? 1000000 * (i % 3 == 0 ? 1 : 0) + i - 8 : any;
    p.i64.push_back(position);
    p.i32.push_back(static_cast<std::int32_t>(position));
    p.f64.push_back(i % 3 == 0 ? static_cast<double>(position) : static_cast<double>(any >> 20) * 0x1.8p-9);
  }
  return p;
}

}  // namespace proof
