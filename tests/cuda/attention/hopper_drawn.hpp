// SPDX-License-Identifier: Apache-2.0
// Random problems for the backward of attention on Hopper, with what the forward would give of them.
#pragma once

#include "cuda/attention/hopper_gradients.hpp"

namespace phasor::test {

/// Of a row by its scores alone.
inline ExpectedRow expected_by_scores(const BackwardProblem& of, std::int64_t b, std::int64_t i, std::int64_t h) {
  const HopperProblem& p = of.forward;
  const std::int64_t keys = p.k.shape[1], key_head = h / (p.q.shape[2] / p.k.shape[2]);
  ExpectedRow row = {std::vector<double>(static_cast<std::size_t>(p.v.shape[3]), 0.0), {}, -INFINITY, 0};
  std::vector<double> scores;
  double greatest = -INFINITY, sum = 0;
  for (std::int64_t j = 0; j < keys; ++j) scores.push_back(score_of(of, b, i, h, j).value), greatest = std::max(greatest, scores.back());
  if (greatest == -INFINITY) return row;
  for (const double s : scores) sum += std::exp(s - greatest);
  row.lse = greatest + std::log(sum);
  for (std::int64_t j = 0; j < keys; ++j) {
    const double weight = std::exp(scores[static_cast<std::size_t>(j)] - row.lse);
    for (std::int64_t c = 0; c < p.v.shape[3]; ++c) {
      row.out[static_cast<std::size_t>(c)] += weight * value_of(p.dtype, p.v.memory[p.v.at(b, j, key_head, c)]);
    }
  }
  return row;
}

/// What is added to scores: what a forward's problem has but tables, a table of clipped rows, tables by distance, and shifts beside those.
enum class Added { any, table, sides, xl };
/// What the kernels of the backward take: two widths, no soft cap, of tables clipped ones.
inline BackwardProblem backward_problem(std::uint64_t seed, Added added = Added::any) {
  RandomHopper random(seed);
  BackwardProblem p;
  const auto is_taken = [&](const HopperProblem& f) {
    const bool clipped =
        f.table.shape[1] <= 129 && !f.zero_outside && f.features.memory.empty() && f.table_shift.empty() && f.content_shift.empty();
    return f.softcap == 0 && clipped && std::max(f.q.shape[3], f.v.shape[3]) <= 128;
  };
  do p.forward = added == Added::any ? random.make() : random.make_clipped();
  while (!is_taken(p.forward));
  HopperProblem& f = p.forward;
  const bool by_distance = added == Added::sides || added == Added::xl;
  if (by_distance) f.table = {};
  if (added == Added::sides) add_sides(random, f, random.any({1, 2, 3, 3}), false, p.sides);
  if (added == Added::xl) {
    add_sides(random, f, random.chance(4) ? 3 : 1, !random.chance(3), p.sides);
    const int which = random.any({1, 2, 3, 3, 3});
    for (int shift = 0; shift < 2; ++shift) {
      if ((which & 1 << shift) != 0) add_shift(random, f, p.shifts[shift]);
    }
  }
  f.skip = false;  // of the forward alone
  f.widen();
  p.gradient = f.out;
  p.gradient.memory = random.numbers(f.dtype, f.out.memory.size());
  p.wants_distances = !f.diagonal.empty() && random.chance(2);
  p.wants_table = !f.table.memory.empty() && !random.chance(4);
  p.lse.resize(static_cast<std::size_t>(f.q.shape[0] * f.q.shape[1] * f.q.shape[2]));
  if (random.chance(4)) {
    p.lse_gradient.resize(p.lse.size());
    for (float& x : p.lse_gradient) x = random.normal();
  }
  each_row(f.q.shape, [&](std::int64_t b, std::int64_t i, std::int64_t h) {
    const ExpectedRow row = by_distance ? expected_by_scores(p, b, i, h) : expected_row(f, b, i, h);
    p.lse[static_cast<std::size_t>(p.row(b, i, h))] = static_cast<float>(row.lse);
    for (std::int64_t c = 0; c < f.out.shape[3]; ++c)
      f.out.memory[static_cast<std::size_t>(f.out.at(b, i, h, c))] =
          bits_of(f.dtype, static_cast<float>(row.out[static_cast<std::size_t>(c)]));
  });
  return p;
}

}  // namespace phasor::test
