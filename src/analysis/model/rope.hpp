// SPDX-License-Identifier: Apache-2.0
// What follows from a rotary spec, in numbers: slowed pairs, wavelengths, table sizes, where float32 angles fail.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "phasor/rotary.hpp"

namespace phasor::analysis {

/// The error of a cosine or sine that explain calls lost.
inline constexpr double kLost = 1e-2;

/// Neighbouring pairs of one axis, slowed alike or one after the other.
struct PairRun {
  std::int64_t first = 0;
  std::int64_t last = 0;
  std::int64_t axis = 0;
  double slowed_from = 1;  // unscaled frequency / frequency, least and most; infinite for pairs that never turn
  double slowed_to = 1;
  double fastest_wavelength = 0;
  double slowest_wavelength = 0;
};

/// Where float32(position) * float32(frequency) first errs by kLost in a cosine or sine (amplitude included, cos and sin themselves
/// perfect), over all pairs.
struct Float32Limit {
  std::optional<std::int64_t> position;  // none: not found within the search
  std::int64_t good_below = 0;           // no position below has such an error; proven
};

/// Positions of interest; 0: not known.
struct Lengths {
  std::int64_t trained = 0;
  std::int64_t allowed = 0;
};

struct RopeFacts {
  Rotary rotary;
  std::int64_t width = 0;
  std::int64_t pairs = 0;
  std::vector<double> wavelengths = {};  // positions in a turn, a pair; empty for given directions
  std::vector<PairRun> runs = {};        // all pairs, in order; empty for given directions
  double fastest_wavelength = 0;         // of the pairs that turn
  double slowest_wavelength = 0;
  std::int64_t still_pairs = 0;          // never turn
  std::int64_t slower_than_trained = 0;  // pairs that turn less than once in the trained length, the still ones included
  std::int64_t slower_than_allowed = 0;
  double table_bytes_per_position = 0;                 // of a float32 cos and sin of the whole width, as the peers keep them
  std::optional<Float32Limit> float32 = std::nullopt;  // none for coordinates in turns and given directions
};

/// An error is the spec's own.
Result<RopeFacts> rope_facts(const RotarySpec& spec, const Lengths& lengths);

/// The axis of each pair; all 0 when there is one axis, none when the spec is not sound.
std::vector<std::int64_t> axes_of_pairs(const RotarySpec& spec);
std::int64_t axis_count(const RotarySpec& spec);

/// The first position where the float32 angles of these frequencies (radians per position) err by kLost.
Float32Limit float32_limit(const std::vector<double>& frequencies, double amplitude);

}  // namespace phasor::analysis
