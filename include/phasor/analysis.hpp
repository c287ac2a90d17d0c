// SPDX-License-Identifier: Apache-2.0
// Analysis: what tables, words and plots are made of.
#pragma once

#include <cstdint>
#include <vector>

#include "phasor/rotary.hpp"

namespace phasor {

struct Matrix {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::vector<double> values;  // row by row
};

/// amplitude * R(position) as a dense R x R matrix over the rotated channels, in the spec's pairing.
Result<Matrix> rotation_matrix(const Rotary& rotary, std::int64_t position);

/// The operator between query and key: R(query)^T R(key) = R(key - query), so that score = q^T M k.
Result<Matrix> relative_matrix(const Rotary& rotary, std::int64_t query_position, std::int64_t key_position);

/// Largest error of cos and sin over the pairs of a spec at one position.
struct AngleError {
  double exact = 0;    // this library's float32 values
  double float32 = 0;  // float32(position) * float32(frequency), as the peers compute angles, with perfect cos and sin after it
};
AngleError angle_error(const Rotary& rotary, std::int64_t position);

/// Scores of one head at the same distances, near position 0 and near `far_position`.
struct DistanceCheck {
  double largest_score = 0;
  double exact_difference = 0;    // largest change of a score between near and far, rotated by this library
  double float32_difference = 0;  // the same, rotated by the float32 angles of the peers
};
/// q and k are one head each, head_dim values; distances 0 .. distances-1 are tried.
Result<DistanceCheck> distance_check(const Rotary& rotary, const std::vector<float>& q, const std::vector<float>& k, std::int64_t far_position,
                                     std::int64_t distances);

}  // namespace phasor
