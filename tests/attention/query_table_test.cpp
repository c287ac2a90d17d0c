// SPDX-License-Identifier: Apache-2.0
// Tables that meet queries, against the reference: clips, buckets, sliding tables, features, every kind of sight.
#include <gtest/gtest.h>

#include "attention/table_problems.hpp"

namespace phasor::test {
namespace {

ref::Problem full_problem(std::int64_t queries, std::int64_t keys, std::uint64_t seed) {
  return random_problem({.batch = 1, .queries = queries, .keys = keys, .heads = 2, .key_heads = 1, .width = 5, .value_width = 3}, seed);
}

ref::Shaw shaw_keys(const ref::Shape& s, std::int64_t left, std::int64_t right, bool per_head = false) {
  Numbers random(static_cast<std::uint64_t>(left * 1000 + right));
  const std::int64_t rows = (left + 1 + right) * (per_head ? s.heads : 1);
  return {.left = left, .right = right, .per_head = per_head, .keys = random.values(rows * s.width)};
}

TEST(attention_query_table, shaw_clips_at_and_around_the_edges_of_tiles) {
  for (const std::int64_t w : {0, 1, 63, 64, 65, 95, 96, 97, 210, 300}) {
    ref::Problem p = full_problem(200, 211, static_cast<std::uint64_t>(w));
    p.schemes = {shaw_keys(p.shape, w, w)};
    expect_as_reference(p, "w = " + std::to_string(w));
  }
}

TEST(attention_query_table, shaw_clips_that_differ_left_and_right) {
  for (const auto& [left, right] : {std::pair<std::int64_t, std::int64_t>{64, 8}, {0, 130}, {199, 0}, {3, 0}, {0, 0}, {150, 149}}) {
    ref::Problem p = full_problem(130, 200, 3);
    p.schemes = {shaw_keys(p.shape, left, right, true)};
    expect_as_reference(p, std::to_string(left) + " and " + std::to_string(right));
  }
}

TEST(attention_query_table, shaw_in_every_sight) {
  for (NamedSight& sight : table_sights()) {
    sight.problem.schemes = {shaw_keys(sight.problem.shape, 17, 9, true)};
    expect_as_reference(sight.problem, sight.name);
  }
}

/// Every distance of the problem has a row.
ref::TransformerXl long_xl(const ref::Problem& p, std::int64_t reach) {
  Numbers random(8);
  const ref::Shape& s = p.shape;
  return {.u = random.values(s.heads * s.width),
          .v = random.values(s.heads * s.width),
          .table = random.values(s.heads * (2 * reach + 1) * s.width),
          .first_distance = -reach};
}

TEST(attention_query_table, transformer_xl_in_every_sight) {
  for (NamedSight& sight : table_sights()) {
    sight.problem.schemes = {long_xl(sight.problem, 750)};
    expect_as_reference(sight.problem, sight.name);
  }
}

}  // namespace
}  // namespace phasor::test
