// SPDX-License-Identifier: Apache-2.0
// CoPE against the reference: sums of gates under every mask, tables that saturate early or never, and what is refused.
#include <gtest/gtest.h>

#include "attention/support/every_target.hpp"

namespace phasor::test {
namespace {

constexpr ref::Shape kShape{.batch = 2, .queries = 99, .keys = 130, .heads = 2, .key_heads = 1, .width = 5, .value_width = 3};

ref::Problem causal_problem(const ref::Shape& s, std::uint64_t seed) {
  ref::Problem p = random_problem(s, seed);
  p.visibility.causal = true;
  return p;
}

ref::Cope cope(const ref::Shape& s, std::int64_t rows, bool per_head = false) {
  Numbers random(static_cast<std::uint64_t>(rows));
  return {.rows = rows,
          .per_head = per_head,
          .table = random.values(rows * s.width * (per_head ? s.heads : 1)),
          .gate_scale = 1.3,
          .term_scale = 0.6};
}

TEST(attention_cope, tables_of_one_row_few_rows_and_more_than_there_are_keys) {
  for (const std::int64_t rows : {1, 2, 7, 30, 200}) {
    ref::Problem p = causal_problem(kShape, 3);
    p.schemes = {cope(p.shape, rows, rows % 2 == 0)};
    expect_on_every_target(p, std::to_string(rows) + " rows");
  }
}

TEST(attention_cope, many_tiles_beyond_saturation) {
  ref::Problem p = causal_problem({.batch = 1, .queries = 110, .keys = 280, .heads = 1, .key_heads = 1, .width = 5, .value_width = 3}, 4);
  p.schemes = {cope(p.shape, 12)};
  expect_on_every_target(p, "long");
}

TEST(attention_cope, only_keys_that_are_seen_count) {
  ref::Problem p = causal_problem(kShape, 5);
  p.schemes = {cope(p.shape, 20)};
  p.visibility.left = 40;
  expect_on_every_target(p, "window");
  p.visibility.left.reset();
  p.visibility.prefix = {90, 0};
  expect_on_every_target(p, "prefix");
  p.visibility.prefix.clear();
  p.visibility.key_mask.assign(2 * 130, 1);
  for (std::size_t j = 0; j < 260; j += 3) p.visibility.key_mask[j] = 0;
  expect_on_every_target(with_nan_behind_the_mask(p), "padding");
  p.softcap = 3;
  expect_on_every_target(p, "soft cap");
}

TEST(attention_cope, sequences_of_a_varlen_batch) {
  ref::Shape s = kShape;
  s.batch = 1;
  ref::Problem p = causal_problem(s, 6);
  p.visibility.query_starts = {0, 3, 3, 40, 99};
  p.visibility.key_starts = {0, 70, 75, 80, 130};
  p.schemes = {cope(p.shape, 9)};
  expect_on_every_target(p, "varlen");
}

TEST(attention_cope, queries_in_any_order_and_keys_with_gaps) {
  ref::Problem p = causal_problem(kShape, 7);
  p.query_positions = repeated(shuffled(99, 200), 2);
  for (std::int64_t n = 0; n < 260; ++n) p.key_positions.push_back(3 * (n % 130) + n % 2);
  p.schemes = {cope(p.shape, 15)};
  expect_on_every_target(p, "gaps");
}

TEST(attention_cope, a_few_queries_against_a_cache) {
  ref::Problem p = causal_problem({.batch = 1, .queries = 2, .keys = 600, .heads = 2, .key_heads = 1, .width = 5, .value_width = 3}, 8);
  p.schemes = {cope(p.shape, 25)};
  expect_on_every_target(p, "decoding");
}

TEST(attention_cope, rotated_contents_leave_gates_alone) {
  ref::Shape s = kShape;
  s.width = 6;
  ref::Problem p = causal_problem(s, 9);
  p.schemes = {cope(p.shape, 11), ref::Rope{{.base = 50}}};
  expect_on_every_target(p, "rope");
}

TEST(attention_cope, the_order_of_tasks_does_not_matter) {
  ref::Problem p = causal_problem(kShape, 10);
  p.schemes = {cope(p.shape, 11)};
  expect_same_bits_by_any_runner(p, "cope");
}

TEST(attention_cope, what_does_not_fit_is_an_error) {
  ref::Problem p = causal_problem(kShape, 11);
  p.schemes = {cope(p.shape, 11)};
  Bridge bridge(p, DType::f32);
  bridge.spec.visibility.mask = Mask::full;
  EXPECT_NE(failure_of(bridge).find("causal"), std::string::npos);
  bridge.spec.visibility.mask = Mask::causal;
  const ref::Integers falling = shuffled(130);
  bridge.spec.key_positions = positions(falling.data(), 130);
  const Status status = bridge.forward();
  EXPECT_EQ(status.kind(), ErrorKind::unsupported);
  EXPECT_NE(status.message().find("wanted rising positions"), std::string::npos) << status.message();
  bridge.spec.key_positions.reset();
  auto& term = std::get<CopeTerm>(bridge.spec.terms[0]);
  term.gate_scale = NAN;
  EXPECT_EQ(failure_of(bridge), "attention: terms[0]: gate_scale is nan, wanted a finite number");
  term.gate_scale = 1;
  term.table.shape[3] = 4;
  EXPECT_EQ(failure_of(bridge), "attention: terms[0]: table has 4 on its last axis, wanted 5");
}

}  // namespace
}  // namespace phasor::test
