// SPDX-License-Identifier: Apache-2.0
// Problems in 16 bits whose queries, and keys, are rotated inside of the call.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <variant>
#include <vector>

#include "attention/support/narrow_problems.hpp"

namespace phasor::test {

inline NarrowProblem rotated_problem(const std::string& name, const ref::Shape& shape, const ref::Rope& rope) {
  ref::Problem p = random_problem(shape, 5);
  p.schemes = {rope};
  return {name, p};
}

inline const ref::Ladder kWholeLadder = {};
inline const ref::Ladder kPartLadder = {.rotary_width = 8, .base = 500, .pairing = ref::Pairing::interleaved, .amplitude = 1.1};
inline const ref::Ladder kGivenLadder = {.rotary_width = 6, .frequencies = {1.5, 0.3, -0.01}, .amplitude = 0.9};

inline void add_other_rotated(const ref::Shape& s, std::vector<NarrowProblem>& all) {
  Numbers random(21);
  all.push_back(rotated_problem("a bias by distance", s, {kWholeLadder}));
  all.back().problem.schemes.emplace_back(random_t5(s, random, true));
  all.back().problem.visibility.causal = true;
  all.push_back(rotated_problem("capped, with sinks", s, {kPartLadder, true}));
  all.back().problem.softcap = 2;
  all.back().problem.sinks = random.values(s.heads, -2, 4);
  all.push_back(rotated_problem("two biases", s, {kWholeLadder}));
  all.back().problem.schemes.emplace_back(random_t5(s, random, true));
  all.back().problem.schemes.emplace_back(ref::Alibi{random.values(s.heads, 0.01, 0.1)});
  all.push_back(rotated_problem("dropout", s, {kPartLadder}));
  all.back().problem.dropout = {.probability = 1.0 / 3, .seed = 41, .offset = 7, .first_head = 3, .first_sequence = 2};
  const ref::Shape ragged{.batch = 1, .queries = 130, .keys = 160, .heads = 2, .key_heads = 1, .width = s.width, .value_width = 8};
  all.push_back(rotated_problem("ragged", ragged, {kWholeLadder}));
  all.back().problem.visibility = {.causal = true, .query_starts = {0, 50, 50, 60, 130}, .key_starts = {0, 70, 90, 90, 160}};
}

/// Positions in any order, `far` tokens from 0.
inline void scatter_positions(ref::Problem& p, std::int64_t far) {
  for (std::int64_t n = 0; n < p.shape.batch * p.shape.queries; ++n) p.query_positions.push_back(far + (n * 37) % 151);
  for (std::int64_t n = 0; n < p.shape.batch * p.shape.keys; ++n) p.key_positions.push_back(far + (n * 71) % 137);
}

/// Half and neighbouring pairs, some of the channels and all, amplitudes, frequencies that are given; keys that are rotated here, and those
/// that came so. Every mask; biases, sinks, a soft cap, dropout; positions in any order and far from 0; a ragged batch.
inline std::vector<NarrowProblem> rotated_problems(const ref::Shape& s) {
  std::vector<NarrowProblem> all;
  for (const bool keys_rotated : {false, true}) {
    const std::string keys = keys_rotated ? ", of queries alone" : "";
    all.push_back(rotated_problem("all channels" + keys, s, {kWholeLadder, keys_rotated}));
    all.push_back(rotated_problem("some channels, neighbouring pairs" + keys, s, {kPartLadder, keys_rotated}));
    all.push_back(rotated_problem("given frequencies" + keys, s, {kGivenLadder, keys_rotated}));
    all.push_back(rotated_problem("positions for the rotation alone" + keys, s, {kWholeLadder, keys_rotated}));
    scatter_positions(all.back().problem, 1000000);
    all.push_back(rotated_problem("causal positions in any order" + keys, s, {kWholeLadder, keys_rotated}));
    all.back().problem.visibility.causal = true;
    scatter_positions(all.back().problem, keys_rotated ? 0 : 9000000);
  }
  for (const NamedMask& mask : every_mask(s)) {
    if (mask.name == "full") continue;
    all.push_back(rotated_problem(mask.name, s, {kWholeLadder, mask.name == "padding"}));
    all.back().problem.visibility = mask.visibility;
  }
  add_other_rotated(s, all);
  return all;
}

/// Tables that meet neither q nor k: those of values, and those of features.
inline std::vector<NarrowProblem> rotated_beside_tables(const ref::Shape& s) {
  std::vector<NarrowProblem> all = {value_problems(s).at(0), value_problems(s).at(2), feature_problems(s).at(2), feature_problems(s).at(7)};
  for (std::size_t n = 0; n < 2; ++n) std::get<ref::Shaw>(all.at(n).problem.schemes.front()).keys = {};
  for (NarrowProblem& one : all) {
    one.problem.schemes.emplace_back(ref::Rope{kPartLadder});
    one.problem.visibility.causal = true;
  }
  return all;
}

/// Lengths of one token and at the ends of tiles, fewer queries than keys and more; heads that share keys; so many keys that they are cut
/// into parts.
inline std::vector<NarrowProblem> rotated_lengths() {
  std::vector<NarrowProblem> all;
  for (const auto& [queries, keys] : {std::pair{70, 70}, {1, 1}, {1, 65}, {63, 64}, {65, 63}, {33, 97}, {129, 31}, {130, 1}, {200, 330}}) {
    const std::int64_t width = keys % 2 == 0 ? 128 : 64;
    const ref::Shape s{.batch = 1, .queries = queries, .keys = keys, .heads = 4, .key_heads = 2, .width = width, .value_width = 24};
    all.push_back(rotated_problem(std::to_string(queries) + " x " + std::to_string(keys), s, {kWholeLadder, queries == 33}));
    all.back().problem.visibility.causal = true;
  }
  return all;
}

}  // namespace phasor::test
