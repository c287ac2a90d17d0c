// SPDX-License-Identifier: Apache-2.0
// What the host side of a bias is made of: which distances it holds, and how its job is laid out and filled.
#pragma once

#include <span>
#include <vector>

#include "cpu/attention/host/term_tensors.hpp"
#include "cpu/attention/host/terms.hpp"
#include "cpu/attention/host_tables/slots.hpp"
#include "cpu/attention/job/bias.hpp"
#include "job/memory/arena.hpp"

namespace phasor::attend {

/// Those outside of which a table's row does not change; everything for schemes that never stop changing.
DistanceRange changing_distances(const plan::BiasSource& bias);

inline void* take_arithmetic(Arena& arena, const AttentionJob& job, std::int64_t count) {
  return arena.take_bytes(count * bytes_of(job.arithmetic));
}
/// Distances of the places from `first` on of a band, its margins not counted.
void fill_distances(const BiasJob& bias, std::int64_t first, std::span<std::int64_t> to);
/// So many at a time: what heads have at them fits a cache.
constexpr std::int64_t kDistanceChunk = 512;

/// Distances that a band holds, at most: one that is longer would be out of all proportion.
std::int64_t longest_band(const AttentionShape& shape);
/// Takes the band's memory and fills it.
void make_bias_band(const TermContext& context, Arena& arena, BiasJob& bias);
/// The same of FIRE's rows beyond its length.
void make_fire_rows(const TermContext& context, Arena& arena, BiasJob& bias);
/// Takes what the diagonals of each group of sequences are summed in, cleared.
void make_diagonals(const TermContext& context, Arena& arena, BiasJob& bias);
/// Whether a FIRE is of one hidden layer of ReLU: straight segments.
bool is_piecewise(const plan::BiasSource& bias);
FireLines lines_of(const plan::BiasSource& bias, std::int64_t first_head, std::int64_t heads);
/// Adds the gradient of its parameters, from kFireSums a segment of each head.
void add_line_gradient(const BiasNumbers& numbers, std::int64_t head, std::span<const double> sums, std::span<double> to);

/// |r| of a band: from `first` to end - 1.
struct LengthRange {
  std::int64_t first;
  std::int64_t end;
};
LengthRange lengths_of(const BiasJob& bias);
/// Whether a scheme depends on |r| alone, and fill_lengths knows it.
bool is_even(const plan::BiasSource& bias);
/// (heads, N) values at |r| = first, first + 1, ..., of heads from first_head on.
struct LengthValues {
  std::int64_t first_head;
  std::int64_t heads;
  std::int64_t first;
  std::span<double> out;
};
void fill_lengths(const BiasNumbers& numbers, const LengthValues& values);
/// Of one head, at |r| = first, first + 1, ...; works in `memory`, length_memory numbers.
struct LengthGradient {
  std::int64_t head;  // of the scheme
  std::int64_t row;   // the same, of the call
  std::int64_t first;
  std::span<const double> values;
  std::span<double> memory;
};
std::int64_t length_memory(const BiasNumbers& numbers);
void add_length_gradient(const BiasNumbers& numbers, const LengthGradient& gradient, std::span<double> to);

/// Numbers that finish_term works in, of a bias whose parameters' gradient is wanted.
std::int64_t finishing_size(const BiasJob& bias, const BiasNumbers& numbers, std::int64_t heads);

}  // namespace phasor::attend
