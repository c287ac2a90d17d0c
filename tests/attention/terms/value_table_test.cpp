// SPDX-License-Identifier: Apache-2.0
// Tables added to values, against the reference: with and without a query-side table, clipped and sliding.
#include <gtest/gtest.h>

#include "attention/support/table_problems.hpp"

namespace phasor::test {
namespace {

constexpr ref::Shape kShape{.batch = 1, .queries = 200, .keys = 211, .heads = 2, .key_heads = 1, .width = 5, .value_width = 3};

struct Tables {
  std::int64_t left;
  std::int64_t right;
  bool keys = true;
  bool per_head = false;
};
ref::Shaw shaw(const ref::Shape& s, const Tables& tables) {
  Numbers random(static_cast<std::uint64_t>(tables.left * 1000 + tables.right + 1));
  const std::int64_t rows = (tables.left + 1 + tables.right) * (tables.per_head ? s.heads : 1);
  return {.left = tables.left,
          .right = tables.right,
          .per_head = tables.per_head,
          .keys = tables.keys ? random.values(rows * s.width) : ref::Values(),
          .values = random.values(rows * s.value_width)};
}

TEST(attention_value_table, clips_at_and_around_the_edges_of_tiles) {
  for (const std::int64_t w : {0, 1, 63, 64, 65, 95, 96, 97, 210, 300}) {
    ref::Problem p = random_problem(kShape, static_cast<std::uint64_t>(w));
    p.schemes = {shaw(p.shape, {.left = w, .right = w, .keys = w % 2 == 0})};
    expect_as_reference(p, "w = " + std::to_string(w));
  }
}

TEST(attention_value_table, clips_that_differ_left_and_right) {
  for (const auto& [left, right] : {std::pair<std::int64_t, std::int64_t>{64, 8}, {0, 130}, {199, 0}, {3, 0}, {150, 149}}) {
    ref::Problem p = random_problem(kShape, 3);
    p.schemes = {shaw(p.shape, {.left = left, .right = right, .per_head = true})};
    expect_as_reference(p, std::to_string(left) + " and " + std::to_string(right));
  }
}

TEST(attention_value_table, clipped_under_every_mask) {
  for (MaskedProblem& masked : masked_problems()) {
    masked.problem.schemes = {shaw(masked.problem.shape, {.left = 17, .right = 9, .per_head = true})};
    expect_as_reference(masked.problem, masked.name);
  }
}

TEST(attention_value_table, sliding_under_every_mask) {
  for (MaskedProblem& masked : masked_problems()) {
    masked.problem.schemes = {shaw(masked.problem.shape, {.left = 720, .right = 230})};
    expect_as_reference(masked.problem, masked.name);
  }
}

/// The last tile of keys is short, and all of it beyond the clip.
TEST(attention_value_table, a_short_tile_of_keys_far_behind_or_ahead) {
  for (const std::int64_t offset : {-160, -130, 80, 90, 100}) {
    ref::Problem p = random_problem({.batch = 1, .queries = 30, .keys = 70, .heads = 1, .key_heads = 1, .width = 5, .value_width = 3}, 24);
    for (std::int64_t i = 0; i < 30; ++i) p.query_positions.push_back(i + offset);
    for (std::int64_t j = 0; j < 70; ++j) p.key_positions.push_back(j);
    for (const std::int64_t w : {10, 20, 300}) {
      p.schemes = {shaw(p.shape, {.left = w, .right = w})};
      expect_as_reference(p, "offset " + std::to_string(offset) + ", w = " + std::to_string(w));
    }
  }
}

/// Sliding, where no tile has neighbouring positions: score by score.
TEST(attention_value_table, positions_far_apart_in_any_order) {
  ref::Problem p = random_problem({.batch = 1, .queries = 101, .keys = 70, .heads = 2, .key_heads = 1, .width = 5, .value_width = 3}, 25);
  for (const std::int64_t at : shuffled(101)) p.query_positions.push_back(at * 97);
  for (const std::int64_t at : shuffled(70)) p.key_positions.push_back(at * 131 + 5);
  p.schemes = {shaw(p.shape, {.left = 5000, .right = 3000})};
  expect_as_reference(p, "score by score");
}

ref::Output output_of(const ref::Problem& p, DType dtype) {
  Bridge bridge(p, dtype);
  const Status status = bridge.forward();
  EXPECT_TRUE(status.ok()) << status.message();
  return bridge.output();
}

TEST(attention_value_table, a_table_of_one_number_adds_that_number) {
  for (const std::int64_t w : {3, 64, 210}) {
    ref::Problem p = random_problem(kShape, 20);
    const ref::Output plain = output_of(p, DType::f64);
    p.schemes = {
        ref::Shaw{.left = w, .right = w, .values = ref::Values(static_cast<std::size_t>((2 * w + 1) * p.shape.value_width), 0.75)}};
    ref::Output wanted = plain;
    for (double& x : wanted.out) x += 0.75;
    expect_same(output_of(p, DType::f64), wanted, "w = " + std::to_string(w));
  }
}

TEST(attention_value_table, a_table_of_zeros_changes_no_bit) {
  for (const std::int64_t w : {3, 64, 210}) {
    for (const DType dtype : {DType::f32, DType::f64}) {
      ref::Problem p = random_problem(kShape, 21);
      const ref::Output plain = output_of(p, dtype);
      p.schemes = {ref::Shaw{.left = w, .right = w, .values = ref::Values(static_cast<std::size_t>((2 * w + 1) * p.shape.value_width), 0)}};
      const ref::Output is = output_of(p, dtype);
      EXPECT_EQ(is.out, plain.out) << w;
      EXPECT_EQ(is.lse, plain.lse) << w;
    }
  }
}

/// The gradient of the table alone: "present" and "wanted" are two things.
TEST(attention_value_table, gradients_are_the_same_alone_and_together) {
  for (const std::int64_t w : {30, 205}) {
    ref::Problem p = random_problem(kShape, 22);
    p.schemes = {shaw(p.shape, {.left = w, .right = w})};
    Numbers random(23);
    const ref::Values out_gradient = random.values(p.shape.queries * p.shape.heads * p.shape.value_width);
    const auto gradients = [&](bool q, bool table) {
      Bridge bridge(p, DType::f64);
      if (!q) bridge.gradients.q = bridge.gradients.k = bridge.gradients.v = {};
      if (!table) bridge.gradients.terms.clear();
      expect_ok(bridge.forward());
      expect_ok(bridge.backward(out_gradient));
      return bridge.reference_gradients();
    };
    const ref::Gradients both = gradients(true, true);
    const ref::Values& values = std::get<ref::Shaw>(both.schemes[0]).values;
    EXPECT_GT(largest_magnitude(values), 1e-3);
    EXPECT_EQ(std::get<ref::Shaw>(gradients(false, true).schemes[0]).values, values) << w;
    EXPECT_EQ(gradients(true, false).q, both.q) << w;
    EXPECT_EQ(gradients(true, false).v, both.v) << w;
  }
}

}  // namespace
}  // namespace phasor::test
