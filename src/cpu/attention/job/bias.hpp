// SPDX-License-Identifier: Apache-2.0
// A bias by distance, as a job: a line (ALiBi), values laid out by key - query, or the plan's own formula.
#pragma once

#include <cstdint>
#include <span>

#include "phasor/bias.hpp"
#include "phasor/tensor_view.hpp"
#include "plan/bias/bias.hpp"

namespace phasor::attend {

/// line: ALiBi, from its slopes. band: a value for each key - query from `low` to `high`, beyond which it does not change or is not seen.
/// formula: plan::fill_values a row of a tile: slow, for distances that are too far apart for any table.
enum class BiasForm : std::uint8_t { line, band, formula };

/// Places before and after a band, so that a tile of which any score lies inside is read and added to in whole rows.
constexpr std::int64_t kBandMargin = 160;

/// FIRE, queries beyond `length`: x = psi(|r|) inverse(query), and the perceptron of one hidden layer of ReLU is slopes[s] x + offsets[s]
/// on the segment s of x, the number of knots below x. No segments: the formula.
struct FireRows {
  bool present = false;
  double c = 0;
  double length = 0;
  const void* psi = nullptr;      // T, laid out as the band of one head
  const void* growth = nullptr;   // T, the same: dpsi/dc; null: not wanted
  const void* inverse = nullptr;  // T (B, Tq): 1 / (psi(position) + epsilon)
  std::int64_t segments = 0;
  const void* knots = nullptr;   // T (segments - 1), rising
  const void* slopes = nullptr;  // T (heads, segments)
  const void* offsets = nullptr;
};
/// What is summed for a segment of FIRE: ds, ds x, ds dx/dc.
constexpr std::int64_t kFireSums = 3;

/// Certified skipping: of a key tile and those before it in its sequence.
struct KeyBounds {
  const double* norms = nullptr;            // (key heads, key tiles): the largest; null: nothing is skipped
  const std::int64_t* positions = nullptr;  // (key tiles): the farthest
  double slack = 0;                         // what a score must be below the maximum
};

/// Backward: which part of the band the distances of a group of sequences lie in, so that sums of many short sequences are not as long as
/// the longest.
struct GroupBand {
  std::int64_t skipped = 0;  // places of the job's band before it
  std::int64_t count = 0;    // places of it
  std::int64_t stride = 0;   // T a slot: margins, count, margins
  std::int64_t first = 0;    // T before the group's first slot
};

struct BiasJob {
  BiasForm form = BiasForm::band;
  plan::BiasSource source;
  std::int64_t first_head = 0;
  AlibiForm alibi = AlibiForm::symmetric;
  KeyBounds bounds;

  // The band, T (heads, stride): kBandMargin places that repeat the first value, the values from `low` to `high`, kBandMargin places that
  // repeat the last, and more.
  const void* values = nullptr;
  std::int64_t low = 0;
  std::int64_t high = 0;
  std::int64_t stride = 0;
  FireRows fire;

  const void* gate = nullptr;  // T (B or 1, H or 1, Tq); null: 1
  std::int64_t gate_batch = 0;
  std::int64_t gate_head = 0;

  // Backward, in slots (cpu/attention/tile/tile.inl); null: not wanted.
  void* diagonals = nullptr;  // T: sums of ds laid out as a part of the band, slot after slot
  const GroupBand* group_bands = nullptr;
  double* ends = nullptr;       // (slots, 2): what lies wholly before the band, and behind
  double* sums = nullptr;       // (slots, sum_count): a slope; of the formula's; kFireSums a segment
  double* gate_sums = nullptr;  // (parts, B, H, Tq)
  std::int64_t sum_count = 0;
  double* parameter_sums = nullptr;  // by each parameter
};

/// Distances of one row of a tile, of a head of the attention.
struct BiasRow {
  std::int64_t head;
  std::int64_t query_position;
  std::span<const std::int64_t> distances;
  double* scratch;  // formula_scratch numbers
};
/// The formula.
void bias_row_values(const BiasJob& job, const BiasRow& row, std::span<double> out) noexcept;
/// Adds to the sums of the formula: of a table its rows of this head, else every parameter.
void bias_row_gradient(const BiasJob& job, const BiasRow& row, std::span<const double> gradient, std::span<double> sum) noexcept;
/// Of a scheme with so many parameters.
std::int64_t formula_sums(const plan::BiasSource& bias, std::int64_t parameters);
/// Numbers that a perceptron works in, of one row.
std::int64_t formula_scratch(const plan::BiasSource& bias);

}  // namespace phasor::attend
