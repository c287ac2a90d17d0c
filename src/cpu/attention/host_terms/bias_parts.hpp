// SPDX-License-Identifier: Apache-2.0
// What the host side of a bias is made of: which distances it holds, and how its job is laid out and filled.
#pragma once

#include <span>
#include <vector>

#include "cpu/attention/host/arena.hpp"
#include "cpu/attention/host/term_tensors.hpp"
#include "cpu/attention/host/terms.hpp"
#include "cpu/attention/host_tables/slots.hpp"
#include "cpu/attention/job/bias.hpp"

namespace phasor::attend {

/// Those outside of which a table's row does not change; everything for schemes that never stop changing.
DistanceRange changing_distances(const plan::BiasPlan& plan);

inline void* take_arithmetic(Arena& arena, const attend::AttentionJob& job, std::int64_t count) {
  return arena.take_bytes(count * bytes_of(job.arithmetic));
}
/// Distances of the places [first, first + count) of a band, its margins not counted.
std::vector<std::int64_t> band_distances(const attend::BiasJob& bias, std::int64_t first, std::int64_t count);
/// So many at a time: what heads have at them fits a cache.
constexpr std::int64_t kDistanceChunk = 512;

/// Distances that a band holds, at most: one that is longer would be out of all proportion.
std::int64_t longest_band(const attend::AttentionShape& shape);
/// Takes the band's memory and fills it.
void make_bias_band(const TermContext& context, Arena& arena, attend::BiasJob& bias);
/// The same of FIRE's rows beyond its length.
void make_fire_rows(const Fire& fire, const TermContext& context, Arena& arena, attend::BiasJob& bias);
/// Takes what the diagonals of each group of sequences are summed in, cleared.
void make_diagonals(const TermContext& context, Arena& arena, attend::BiasJob& bias);
/// The perceptron of one hidden layer of ReLU as segments of x >= 0, from the knot before.
struct FireLines {
  std::vector<double> knots;   // rising
  std::vector<double> slopes;  // (heads, knots + 1)
  std::vector<double> offsets;
};
bool is_piecewise(const Fire& fire);
FireLines lines_of(const Fire& fire, std::int64_t first_head, std::int64_t heads);
/// Adds the gradient of its parameters, from kFireSums a segment of each head.
void add_line_gradient(const Fire& fire, const FireLines& lines, std::int64_t head, std::span<const double> sums, std::span<double> to);

/// Lines of a FIRE that is piecewise, else none.
FireLines lines_of(const attend::BiasJob& bias, std::int64_t heads);

/// |r| of a band: from `first` to end - 1.
struct LengthRange {
  std::int64_t first;
  std::int64_t end;
};
LengthRange lengths_of(const attend::BiasJob& bias);
/// Whether a scheme depends on |r| alone, and fill_lengths knows it.
bool is_even(const BiasSpec& spec);
/// (heads, N) values at |r| = first, first + 1, ...
void fill_lengths(const attend::BiasJob& bias, const FireLines& lines, std::int64_t heads, std::int64_t first, std::span<double> out);
/// Of one head, at |r| = first, first + 1, ...
struct LengthGradient {
  std::int64_t head;
  std::int64_t first;
  std::span<const double> values;
};
void add_length_gradient(const attend::BiasJob& bias, const FireLines& lines, const LengthGradient& gradient, std::span<double> to);

}  // namespace phasor::attend
