// SPDX-License-Identifier: Apache-2.0
// Analysis: what tables, words and plots are made of.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "phasor/rotary.hpp"

namespace phasor {

struct Matrix {
  std::int64_t rows = 0, columns = 0;
  std::vector<double> values;  // row by row
};

// Of a spec of several axes a position here is that of every axis. Heads with directions of their own are unsupported.

/// amplitude * R(position) as a dense R x R matrix over the rotated channels: columns in the spec's pairing, rows in the pairing it writes.
/// An error above a width of 4096.
Result<Matrix> rotation_matrix(const Rotary& rotary, std::int64_t position);

/// The operator between query and key: R(query)^T R(key) = amplitude^2 R(key - query), so that score = q^T M k.
/// An error when key - query does not fit in 64 bits, and for per-channel frequencies, whose scores depend on more than the distance.
Result<Matrix> relative_matrix(const Rotary& rotary, std::int64_t query_position, std::int64_t key_position);

/// Positions in a full turn of each pair, 2 pi / |frequency|; infinite for a pair that never turns. One for each of `frequencies()`.
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
/// One entry per position. The numerics of `spec` are not looked at; along every axis the position is the same.
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

// ---- By distance: q and k of length 1 in each pair, every other channel 0. Angles are exact whatever the numerics. ----
/// S(distance) = amplitude^2 * sum over the pairs of cos(distance * frequency): what q and k score before any scale. Rows are distances,
/// columns are specs. Summed to within P * 2^-90 * amplitude^2 from exact phases, then rounded once. Per-channel frequencies are an error.
Result<Matrix> decay(std::span<const Rotary> rotaries, std::span<const std::int64_t> distances);
Result<std::vector<double>> decay(const Rotary& rotary, std::span<const std::int64_t> distances);
/// The smallest distance below `length` at which S is below 0, if there is one.
Result<std::optional<std::int64_t>> first_negative(const Rotary& rotary, std::int64_t length);

/// What one key of a causal context gets from the last query.
struct DistanceWeight {
  std::int64_t distance = 0;
  double sum = 0, share = 0;  // S, S / P
  double score = 0;           // softmax_scale * S / sqrt(head_dim) + bias
  double weight = 0;          // of the softmax; they sum to 1
};
/// Distances 0 to `context` - 1, at most 2^24. `bias` is empty, or a number for each distance (-infinity: not looked at).
Result<std::vector<DistanceWeight>> distance_weights(const Rotary& rotary, std::int64_t context, std::span<const double> bias = {});
/// Softmax of scores by distance, a bias diagonal say. -infinity gets weight 0; all of them, NaN or +infinity are errors.
Result<std::vector<double>> softmax_weights(std::span<const double> scores);

// ---- Rows are tensors (1, rows, 1, D) of any dtype; sums are in float64. ----
enum class Similarity : std::uint8_t { cosine, inner_product };
/// Every row of `a` with every row of `b`, at most 4096 each: encodings with themselves or with embeddings. NaN: cosine with zeros.
Result<Matrix> similarity(const ConstTensorView& a, const ConstTensorView& b, Similarity kind = Similarity::cosine);
/// Of a rotary spec at positions, at most 4096: S of each distance, for the cosine divided by S(0). Distances must fit in 64 bits.
Result<Matrix> similarity(const Rotary& rotary, std::span<const std::int64_t> positions, Similarity kind = Similarity::cosine);

/// How near to orthogonal two sets of rows are, over all cosines but those of zeros.
struct Orthogonality {
  std::int64_t cosines = 0;
  double mean = 0;
  double mean_square = 0;  // 1 / D for directions at random
  double largest = 0;      // absolute value
};
Result<Orthogonality> orthogonality(const ConstTensorView& a, const ConstTensorView& b);

/// The two positions whose encodings are nearest to each other: Euclidean distance, 0 where two are the same.
struct Gap {
  double gap = 0;
  std::int64_t first = 0, second = 0;
};
/// Of cos and sin of every pair, amplitude included, over positions 0 to `length` - 1, 2 to 2^24 of them; `first` is 0.
Result<Gap> smallest_gap(const Rotary& rotary, std::int64_t length);
/// Of 2 to 2^13 rows; positions are row numbers.
Result<Gap> smallest_gap(const ConstTensorView& rows);

/// Tokens x and encodings p, (1, T, 1, D), T at most 2048; projections (1, D, 1, E), y = x W, or no data for none.
struct ScoreInput {
  ConstTensorView x, p, query_weights = {}, key_weights = {};
  double scale = 1;
};
/// The score of x + p, (T, T), queries by keys, and its four terms, the query's part named first. They sum to it, but for rounding.
struct ScoreTerms {
  Matrix content_content, content_position, position_content, position_position, score;
};
Result<ScoreTerms> score_terms(const ScoreInput& input);

// ---- Turns, precision, planning ----
/// One for each of `frequencies()`.
struct PairTurns {
  double frequency = 0, wavelength = 0;
  double turns = 0;  // in the length; below 1 the pair never comes round
};
Result<std::vector<PairTurns>> pair_turns(const Rotary& rotary, std::int64_t length);

/// Errors of one profile for tensors of one dtype at one position.
struct PrecisionError {
  std::int64_t position = 0;
  Numerics numerics = Numerics::exact;
  DType dtype = DType::f32;
  double cos_sin = 0;  // largest over the pairs, of the tables that the profile uses for the dtype
  double score = 0;    // q at position + distance with k at position, both rotated and stored in the dtype, against S(distance)
};
/// q and k are (1, 1) in every pair and the score is halved. Position by position, every numerics whose peer has the spec's scaling, in
/// f32, f16 and bf16; the spec's own is not looked at. Position + distance must fit in 64 bits.
Result<std::vector<PrecisionError>> precision_report(const RotarySpec& spec, std::span<const std::int64_t> at, std::int64_t distance);

struct PlannerInput {
  RotarySpec spec;  // as trained, its own scaling included
  std::int64_t trained_length = 0, wanted_length = 0;
  std::vector<Scaling> scalings = {};  // instead of the spec's own; empty: every published one with factor wanted / trained
};
/// Training has seen the phases of a pair below that of `trained_length`, or all where it turned once or more.
struct PlannedPair {
  double frequency = 0;
  double ratio = 1;                                        // to the frequency as trained; NaN where neither turns
  double trained_turns = 0, wanted_turns = 0;              // with this scaling, in either length
  std::optional<std::int64_t> unseen_from = std::nullopt;  // first position of a phase not seen; none: every one is
};
struct PlannedScaling {
  std::string name;  // "as trained", or what the scaling is called: "linear", "ntk", "dynamic", "yarn", ...
  Scaling scaling;
  std::string error;  // why the spec cannot have it; the rest is then empty
  double amplitude = 1, softmax_scale = 1;
  std::int64_t unseen_pairs = 0;                           // that leave what was seen before `wanted_length`
  std::optional<std::int64_t> unseen_from = std::nullopt;  // where extrapolation begins: the smallest of the pairs
  std::vector<PlannedPair> pairs;
};
/// The first is the spec as trained. Given frequencies and directions are an error: nothing scales them.
Result<std::vector<PlannedScaling>> plan_scalings(const PlannerInput& input);

/// memcpy in pieces on a runner (null: the library's own): what a rotation's speed is shown beside.
void copy_bytes(void* to, const void* from, std::int64_t bytes, const Runner& runner = {});

}  // namespace phasor
