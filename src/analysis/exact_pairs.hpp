// SPDX-License-Identifier: Apache-2.0
// Sums over the pairs of a spec by distance, in double-double from exact phases.
#pragma once

#include <cstdint>
#include <vector>

#include "math/sincos.hpp"
#include "phasor/rotary.hpp"

namespace phasor::analysis {

/// What a spec turns by when every axis is at the same position: one step per pair, whatever the numerics.
struct ExactPairs {
  std::vector<math::Step> steps;  // whole turns left out: positions are whole
  double amplitude = 1;
};

/// An error for per-channel frequencies and for heads with directions of their own.
Result<ExactPairs> exact_pairs(const char* where, const Rotary& rotary);

/// S(distance) = amplitude^2 sum cos, to within P 2^-90 amplitude^2 and one rounding: a cosine is good to 2^-95, and adding P of them to
/// P^2 2^-104, which is less while P is at most 2^14.
double score_sum(const ExactPairs& pairs, std::int64_t distance);

/// first, first + step, ...; what is between the first and the last one of them fits into 64 bits.
struct EvenDistances {
  std::int64_t count = 4096;  // how many will be visited; blocks go by it, and more than this make no difference
  std::int64_t first = 0;
  std::int64_t step = 1;
};

/// Sums at even distances: angles of a block's start and of the offset into it are added, which costs two products a cosine.
class DistanceWalk {
 public:
  DistanceWalk(const ExactPairs& pairs, const EvenDistances& at);
  /// To the next distance; the first call goes to the first.
  void advance();
  /// S(distance), as good as score_sum.
  double score() const;
  /// sum sin^2, in float64: relative error below (P + 4) 2^-52.
  double sine_squares() const;

 private:
  using CosSin = math::CosSin<math::DoubleDouble>;
  CosSin turned(std::int64_t pair) const;

  const ExactPairs& pairs_;
  EvenDistances at_;
  std::int64_t block_;
  std::int64_t number_ = -1;     // of the distance
  std::vector<CosSin> offsets_;  // (block, P)
  std::vector<CosSin> start_;    // (P)
};

}  // namespace phasor::analysis
