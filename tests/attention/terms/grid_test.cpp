// SPDX-License-Identifier: Apache-2.0
// Biases of images against the reference: Swin, BEiT with its class token, SAM, MViTv2 whose grids differ.
#include <gtest/gtest.h>

#include <algorithm>

#include "attention/support/every_target.hpp"

namespace phasor::test {
namespace {

ref::Shape shape_of(std::int64_t queries, std::int64_t keys) {
  return {.batch = 2, .queries = queries, .keys = keys, .heads = 4, .key_heads = 2, .width = 5, .value_width = 3};
}

ref::Swin swin(const ref::Shape& s, std::int64_t height, std::int64_t width, bool class_token) {
  Numbers random(31);
  const std::int64_t rows = (2 * height - 1) * (2 * width - 1) + (class_token ? 3 : 0);
  return {.height = height, .width = width, .class_token = class_token, .table = random.values(s.heads * rows)};
}

ref::Sam sam(const ref::Shape& s, std::array<std::int64_t, 2> queries, std::array<std::int64_t, 2> keys) {
  Numbers random(32);
  return {.query_grid = queries,
          .key_grid = keys,
          .rows_h = random.values((2 * std::max(queries[0], keys[0]) - 1) * s.width),
          .rows_w = random.values((2 * std::max(queries[1], keys[1]) - 1) * s.width)};
}

/// Windows narrower than a register, of odd widths, and wider than a tile.
const std::vector<std::pair<std::int64_t, std::int64_t>> kWindows = {{7, 7}, {12, 13}, {3, 70}, {1, 1}, {130, 1}, {1, 100}};

TEST(attention_grid, swin_and_beit_in_windows_of_any_width) {
  for (const auto& [height, width] : kWindows) {
    for (const bool class_token : {false, true}) {
      const std::int64_t tokens = height * width + (class_token ? 1 : 0);
      ref::Problem p = random_problem(shape_of(tokens, tokens), 5);
      p.schemes = {swin(p.shape, height, width, class_token)};
      expect_on_every_target(p, std::to_string(height) + " x " + std::to_string(width) + (class_token ? ", class token" : ""));
    }
  }
}

TEST(attention_grid, sam_in_windows_of_any_width) {
  for (const auto& [height, width] : kWindows) {
    ref::Problem p = random_problem(shape_of(height * width, height * width), 6);
    p.schemes = {sam(p.shape, {height, width}, {height, width})};
    expect_on_every_target(p, std::to_string(height) + " x " + std::to_string(width));
  }
}

/// Tokens 0 to n - 1 in every batch row, shuffled or in order.
ref::Integers tokens(std::int64_t n, std::int64_t batch, bool shuffle) {
  ref::Integers order = shuffled(n);
  if (!shuffle) std::sort(order.begin(), order.end());
  return repeated(order, batch);
}

TEST(attention_grid, tokens_in_any_order) {
  for (const bool queries : {false, true}) {
    for (const bool keys : {false, true}) {
      for (const bool class_token : {false, true}) {
        const std::int64_t count = 11 * 9 + (class_token ? 1 : 0);
        ref::Problem p = random_problem(shape_of(count, count), 7);
        p.query_positions = tokens(count, 2, queries);
        p.key_positions = tokens(count, 2, keys);
        p.schemes = {swin(p.shape, 11, 9, class_token)};
        if (!class_token) p.schemes.emplace_back(sam(p.shape, {11, 9}, {11, 9}));
        expect_on_every_target(p, queries ? (keys ? "both shuffled" : "queries shuffled") : keys ? "keys shuffled" : "in order");
      }
    }
  }
}

TEST(attention_grid, tokens_may_repeat) {
  for (const bool class_token : {false, true}) {
    ref::Problem p = random_problem(shape_of(120, 150), 13);
    for (std::int64_t n = 0; n < 240; ++n) p.query_positions.push_back(n % 5 == 0 ? 0 : n * 7 % 63);
    for (std::int64_t n = 0; n < 300; ++n) p.key_positions.push_back(n % 9 == 0 ? 0 : n % 63);
    p.schemes = {swin(p.shape, 7, 9, class_token)};
    if (!class_token) p.schemes.emplace_back(sam(p.shape, {7, 9}, {7, 9}));
    expect_on_every_target(p, class_token ? "class token" : "no class token");
  }
}

TEST(attention_grid, grids_that_differ) {
  const std::vector<std::pair<std::array<std::int64_t, 2>, std::array<std::int64_t, 2>>> grids = {
      {{8, 12}, {4, 6}}, {{4, 6}, {8, 12}}, {{9, 10}, {4, 3}}, {{4, 3}, {9, 10}}, {{8, 8}, {8, 2}}};
  for (const auto& [queries, keys] : grids) {
    const std::int64_t query_count = queries[0] * queries[1];
    const std::int64_t key_count = keys[0] * keys[1];
    ref::Problem p = random_problem(shape_of(query_count, key_count), 8);
    p.query_positions = tokens(query_count, 2, false);
    p.schemes = {sam(p.shape, queries, keys)};
    expect_on_every_target(p, "grids of " + std::to_string(query_count) + " and " + std::to_string(key_count));
  }
}

TEST(attention_grid, a_few_queries_of_a_window_and_padding) {
  ref::Problem p = random_problem(shape_of(20, 12 * 12), 9);
  p.visibility.key_mask.assign(2 * 144, 1);
  for (std::size_t j = 100; j < 144; ++j) p.visibility.key_mask[j] = 0;
  p.schemes = {swin(p.shape, 12, 12, false), sam(p.shape, {12, 12}, {12, 12})};
  expect_on_every_target(with_nan_behind_the_mask(p), "padded");
  expect_same_bits_by_any_runner(p, "padded");
}

TEST(attention_grid, heads_may_share_the_table) {
  ref::Problem p = random_problem(shape_of(50, 50), 10);
  ref::Swin scheme = swin(p.shape, 7, 7, true);
  const std::size_t rows = 13 * 13 + 3;
  for (std::size_t n = rows; n < scheme.table.size(); ++n) scheme.table[n] = scheme.table[n % rows];
  p.schemes = {scheme};
  Bridge bridge(p, DType::f64);
  Wanted wanted(bridge.problem, DType::f64);
  std::get<GridTerm>(bridge.spec.terms[0]).table.shape[2] = bridge.gradients.terms[0].table.shape[2] = 1;
  ASSERT_TRUE(bridge.forward().ok());
  expect_near(bridge.output().out, wanted.output.out, DType::f64, "out");
  ASSERT_TRUE(bridge.backward(wanted.out_gradient, wanted.lse_gradient).ok());
  ref::Values is = std::get<ref::Swin>(bridge.reference_gradients().schemes[0]).table;
  ref::Values sum = std::get<ref::Swin>(wanted.gradients.schemes[0]).table;
  for (std::size_t n = rows; n < sum.size(); ++n) sum[n % rows] += sum[n];
  is.resize(rows);
  sum.resize(rows);
  expect_near(is, sum, DType::f64, "shared gradient");
}

TEST(attention_grid, rows_of_heads_and_a_scale) {
  ref::Problem p = random_problem(shape_of(70, 70), 11);
  const ref::Sam one = sam(p.shape, {7, 10}, {7, 10});
  p.schemes = {one};
  Bridge bridge(p, DType::f64);
  ASSERT_TRUE(bridge.forward().ok());
  const ref::Values shared = bridge.output().out;
  ref::Values by_head_h;
  ref::Values by_head_w;
  for (int h = 0; h < 4; ++h) {
    for (const double x : one.rows_h) by_head_h.push_back(x / 2);
    for (const double x : one.rows_w) by_head_w.push_back(x / 2);
  }
  auto& term = std::get<DecomposedTerm>(bridge.spec.terms[0]);
  term.rows_h = {by_head_h.data(), DType::f64, {1, 13, 4, 5}, {0, 5, 65, 1}};
  term.rows_w = {by_head_w.data(), DType::f64, {1, 19, 4, 5}, {0, 5, 95, 1}};
  term.scale = 2;
  ASSERT_TRUE(bridge.forward().ok());
  expect_near(bridge.output().out, shared, DType::f64, "copies for every head");
}

TEST(attention_grid, what_does_not_fit_is_an_error) {
  ref::Problem p = random_problem(shape_of(49, 49), 12);
  p.schemes = {swin(p.shape, 7, 7, false), sam(p.shape, {7, 7}, {7, 7})};
  Bridge bridge(p, DType::f32);
  auto& grid = std::get<GridTerm>(bridge.spec.terms[0]);
  grid.window.width = 6;
  EXPECT_EQ(failure_of(bridge), "attention: terms[0]: table has 169 on its second axis, wanted 143");
  grid.window = {0, 7};
  EXPECT_EQ(failure_of(bridge), "attention: terms[0]: window is 0 x 7, wanted 1 to 32768 each");
  grid.window = {7, 7};
  bridge.spec.key_positions = positions_from(1);
  EXPECT_EQ(failure_of(bridge), "attention: terms[0]: key positions are 1 to 49, the grid has 0 to 48");
  bridge.spec.key_positions.reset();
  bridge.spec.query_positions = positions_from(-1);
  EXPECT_EQ(failure_of(bridge), "attention: terms[0]: query positions are -1 to 47, the grid has 0 to 48");
  bridge.spec.query_positions.reset();
  std::get<DecomposedTerm>(bridge.spec.terms[1]).key_grid = {7, 8};
  EXPECT_EQ(failure_of(bridge), "attention: terms[1]: rows_w has 13 on its second axis, wanted 15");
}

}  // namespace
}  // namespace phasor::test
