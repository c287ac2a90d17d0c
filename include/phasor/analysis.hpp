// SPDX-License-Identifier: Apache-2.0
// Analysis: what tables, words and plots are made of.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "phasor/rotary.hpp"

namespace phasor {

struct Matrix {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::vector<double> values;  // row by row
};

/// amplitude * R(position) as a dense R x R matrix over the rotated channels: columns in the spec's pairing, rows in the pairing it writes.
/// An error above a width of 4096.
Result<Matrix> rotation_matrix(const Rotary& rotary, std::int64_t position);

/// The operator between query and key: R(query)^T R(key) = amplitude^2 R(key - query), so that score = q^T M k.
/// An error when key - query does not fit in 64 bits.
Result<Matrix> relative_matrix(const Rotary& rotary, std::int64_t query_position, std::int64_t key_position);

/// Positions in a full turn of each pair, 2 pi / |frequency|; infinite for a pair that never turns.
std::vector<double> wavelengths(const Rotary& rotary);

/// Largest error of cos and sin (amplitude included) over the pairs of a spec at one position.
struct AngleError {
  double exact = 0;    // this library's float32 values
  double float32 = 0;  // float32(position) * float32(frequency), as the peers compute angles, with perfect cos and sin after it
};
Result<AngleError> angle_error(const Rotary& rotary, std::int64_t position);

/// Largest error of cos and sin (amplitude included) over the pairs at one position, for the float32 tables of each numerics profile;
/// none where the profile's peer does not have the spec's scaling. hf_float32 has the tables of hf.
struct ProfileError {
  std::int64_t position = 0;
  double exact = 0;
  std::optional<double> hf = std::nullopt;
  std::optional<double> vllm = std::nullopt;
  std::optional<double> ggml = std::nullopt;
};
/// One entry a position. The numerics of `spec` are not looked at; along every axis the position is the same.
Result<std::vector<ProfileError>> profile_errors(const RotarySpec& spec, std::span<const std::int64_t> positions);

/// Scores of the same q and k at positions from 0 on and at positions from `far_position` on. They depend on the distance alone
/// when a difference is at most `rounding`.
struct DistanceCheck {
  std::int64_t scores = 0;  // how many were compared
  double largest_score = 0;
  double exact_difference = 0;    // largest change of a score between near and far, rotated by this library
  double float32_difference = 0;  // the same, rotated by the float32 angles of the peers
  double rounding = 0;            // the most that rounding rotated values to their dtype can change a score
};
/// q (1, T, H, D) and k (1, T, heads that divide H, D) of one dtype. Compares a sample of queries in every head at distances 0, 1, 2,
/// 4, 8, ... Allocates copies of q and k.
Result<DistanceCheck> distance_check(const Rotary& rotary, const ConstTensorView& q, const ConstTensorView& k, std::int64_t far_position);

/// memcpy in pieces on a runner (null: the library's own): what a rotation's speed is shown beside.
void copy_bytes(void* to, const void* from, std::int64_t bytes, const Runner& runner = {});

}  // namespace phasor
