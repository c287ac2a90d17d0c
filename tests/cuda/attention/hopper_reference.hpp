// SPDX-License-Identifier: Apache-2.0
// A naive reference in double of attention on Hopper, and how far from it the arithmetic may be.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <thread>
#include <vector>

#include "cuda/attention/hopper_problem.hpp"
#include "cuda/attention/value_rows.hpp"

namespace phasor::test {

/// What a row should be, and by how much it may differ.
struct ExpectedRow {
  std::vector<double> out, out_bound;
  double lse = 0, lse_bound = 0;
};

/// Scores of a row; at most: the greatest, what is summed to one by magnitude, a product with a table by magnitude.
struct RowScores {
  std::vector<double> score;
  double greatest = -INFINITY, size = 0, kept = 0;
};
struct ScorePlace {
  std::int64_t batch, query, head, key;
};
/// What tables of queries and of keys add to a score; by magnitude, what is summed to it, and what is rounded to float16: each product, and
/// their sum where there are two.
struct OfSides {
  double sum = 0, size = 0, rounded = 0;
};
inline OfSides of_sides(const HopperProblem& p, const ScorePlace& at) {
  OfSides of;
  const std::int64_t distance = at.query + p.k.shape[1] - p.q.shape[1] - at.key, key_head = at.head / (p.q.shape[2] / p.k.shape[2]);
  for (const SideProblem& side : p.sides) {
    const std::int64_t row = side.is_there() ? side.row(distance) : -1;
    if (row < 0) continue;
    const bool of_queries = &side == p.sides;
    const float* const x =
        of_queries ? &p.q.values[p.q.at(at.batch, at.query, at.head, 0)] : &p.k.values[p.k.at(at.batch, at.key, key_head, 0)];
    const float* const y = &side.table.values[side.table.at(0, row, side.table.shape[2] == 1 ? 0 : at.head, 0)];
    double product = 0;
    for (std::int64_t c = 0; c < p.q.shape[3]; ++c) {
      const double x_y = static_cast<double>(x[c]) * static_cast<double>(y[c]) * side.scale;
      product += x_y, of.size += std::abs(x_y);
    }
    of.sum += product, of.rounded += std::abs(product);
  }
  if (p.sides[0].is_there() && p.sides[1].is_there()) of.rounded += std::abs(of.sum);
  return of;
}
/// Of a problem whose inputs are widened.
inline RowScores scores_of_row(const HopperProblem& p, std::int64_t b, std::int64_t i, std::int64_t h) {
  const std::int64_t tk = p.k.shape[1], d = p.q.shape[3], key_head = h / (p.q.shape[2] / p.k.shape[2]);
  const std::int64_t position = i + tk - p.q.shape[1];
  RowScores row = {std::vector<double>(static_cast<std::size_t>(tk), -INFINITY)};
  for (std::int64_t j = 0; j < tk; ++j) {
    const std::int64_t r = position - j;
    if ((p.causal && r < 0) || r > p.left || -r > p.right) continue;
    double dot = 0, sizes = 0;
    for (std::int64_t c = 0; c < d; ++c) {
      const double of_key = static_cast<double>(p.k.values[p.k.at(b, j, key_head, c)]);
      const double x = static_cast<double>(p.q.values[p.q.at(b, i, h, c)]) * of_key, y = p.shift_at(p.content_shift, h, c) * of_key;
      dot += x + y, sizes += std::abs(x) + std::abs(y);
    }
    double s = dot * p.scale;
    sizes *= p.scale;
    if (!p.diagonal.empty()) {
      const double bias =
          p.diagonal[h * p.diagonal_stride + std::clamp(r, p.first_distance, p.first_distance + p.distances - 1) - p.first_distance];
      s += bias, sizes += std::abs(bias);
    }
    const bool outside = -r < -p.table_left || -r > p.table_right;
    if (!p.table.memory.empty() && !(outside && p.zero_outside)) {
      const std::int64_t at = std::clamp(-r, -p.table_left, p.table_right) + p.table_left, of = p.table.shape[2] == 1 ? 0 : h;
      double product = 0;
      const Tensor16& meets = p.meets_table();
      for (std::int64_t c = 0; c < p.table.shape[3]; ++c) {
        const double of_row = static_cast<double>(p.table.values[p.table.at(0, at, of, c)]);
        const double x = static_cast<double>(meets.values[meets.at(b, i, h, c)]) * of_row, y = p.shift_at(p.table_shift, h, c) * of_row;
        product += x + y, sizes += (std::abs(x) + std::abs(y)) * p.table_scale;
      }
      s += product * p.table_scale, row.kept = std::max(row.kept, std::abs(product) * p.table_scale);
    }
    const OfSides sides = of_sides(p, {b, i, h, j});
    s += sides.sum, sizes += sides.size, row.kept = std::max(row.kept, sides.rounded);
    if (p.softcap != 0) s = p.softcap * std::tanh(s / p.softcap), sizes += p.softcap;
    row.score[j] = s, row.greatest = std::max(row.greatest, s), row.size = std::max(row.size, sizes);
  }
  return row;
}

inline ExpectedRow expected_row(const HopperProblem& p, std::int64_t b, std::int64_t i, std::int64_t h) {
  const std::int64_t tk = p.k.shape[1], d = p.q.shape[3], dv = p.v.shape[3], key_head = h / (p.q.shape[2] / p.k.shape[2]);
  const auto [score, greatest, size, kept] = scores_of_row(p, b, i, h);
  ExpectedRow row = {std::vector<double>(dv, 0.0), std::vector<double>(dv, 0.0), -INFINITY, 0};
  if (greatest == -INFINITY) return row;
  double sum = 0;
  for (const double s : score) sum += std::exp(s - greatest);
  row.lse = greatest + std::log(sum);
  // A score is summed in float32 by steps of 16 channels, each of which may lose 2 units of the 24th bit of the largest (tensor cores cut
  // off), then scaled and shifted (4 roundings). Then the exponential (2^-22) and float32 sums over tiles.
  // What is added to q is multiplied by threads: eight products and four sums, of half a unit each.
  const bool sided = p.sides[0].is_there() || p.sides[1].is_there();
  const bool shifted = !p.table_shift.empty() || !p.content_shift.empty() || sided;  // far ends of tables, too, are multiplied by threads
  const double steps = static_cast<double>(d + 15) / 16 + 4 + (shifted ? 6 : 0);
  // A product with a table is summed in the same way and kept as float16: half a unit of 11 bits, or of the smallest number.
  const double of_table =
      p.table.memory.empty() && !sided ? 0 : kept * (1 + steps * 0x1p-23) * 0x1p-11 + p.scale * 0x1p-25 * (sided ? 3 : 1);
  const double of_score = size * steps * 0x1p-23 + of_table;
  const double left_out = p.skip ? 0x1p-24 : 0;  // of the sum of weights, and beside it of the largest value
  const double of_weight = 2 * of_score + 0x1p-21 + static_cast<double>(tk) / 16 * 0x1p-23 + left_out;
  row.lse_bound = of_weight + std::abs(row.lse) * 0x1p-22;
  const double rounding = p.dtype == DType::bf16 ? 0x1p-8 : 0x1p-11;  // half a unit: 8 bits, 11 bits
  const double least = p.dtype == DType::bf16 ? 0x1p-134 : 0x1p-25;   // half of the smallest number
  std::vector<double> sizes(dv, 0.0), all(dv, 0.0), weights(static_cast<std::size_t>(tk), 0.0);
  for (std::int64_t j = 0; j < tk; ++j) {
    if (score[j] == -INFINITY) continue;
    const double weight = weights[static_cast<std::size_t>(j)] = std::exp(score[j] - row.lse);
    for (std::int64_t c = 0; c < dv; ++c) {
      const double x = static_cast<double>(p.v.values[p.v.at(b, j, key_head, c)]);
      row.out[c] += weight * x, sizes[c] += weight * std::abs(x), all[c] += std::abs(x);
    }
  }
  ExpectedRows of_rows = {std::vector<double>(dv, 0.0), std::vector<double>(dv, 0.0)};
  if (!p.value_table.memory.empty()) of_rows = expected_rows(p, weights, h, i + tk - p.q.shape[1], of_weight);
  for (std::int64_t c = 0; c < dv; ++c) {
    row.out[c] += of_rows.out[c];
    const double before =  // weights are rounded before they meet values
        sizes[c] * (rounding + of_weight) + all[c] * (least + left_out) + of_rows.off[c];
    row.out_bound[c] = before + (std::abs(row.out[c]) + before) * rounding + least;
  }
  return row;
}

/// As many threads as OpenMP may have: several programs share a machine.
inline std::int64_t threads_of_reference() {
  const char* const asked = std::getenv("OMP_NUM_THREADS");
  const std::int64_t there = asked != nullptr ? std::atoi(asked) : std::thread::hardware_concurrency();
  return std::clamp<std::int64_t>(there, 1, 16);
}
/// body(b, i, h) for every row of queries, by all of those.
template <class Body>
void each_row(const Extents& shape, const Body& body) {
  const std::int64_t rows = shape[0] * shape[1] * shape[2], threads = threads_of_reference();
  std::vector<std::thread> running;
  for (std::int64_t n = 0; n < threads; ++n) {
    running.emplace_back([&, n] {
      for (std::int64_t x = n; x < rows; x += threads) body(x / (shape[1] * shape[2]), x / shape[2] % shape[1], x % shape[2]);
    });
  }
  for (std::thread& t : running) t.join();
}

}  // namespace phasor::test
