// SPDX-License-Identifier: Apache-2.0
// Key-side tables (DeBERTa p2c) against the reference: clips, buckets, features, batch rows, every kind of mask.
#include <gtest/gtest.h>

#include <algorithm>

#include "attention/support/every_target.hpp"

namespace phasor::test {
namespace {

/// p2c alone, unless c2p is wanted too.
ref::Deberta deberta(const ref::Shape& s, std::int64_t buckets, std::int64_t max_distance, bool both = false) {
  Numbers random(static_cast<std::uint64_t>(buckets + max_distance));
  const std::int64_t count = s.heads * 2 * (buckets > 0 ? buckets : max_distance) * s.width;
  ref::Deberta made{.buckets = buckets, .max_distance = max_distance};
  made.queries = random.values(count);
  if (both) made.keys = random.values(count);
  return made;
}

TEST(attention_key_table, deberta_under_every_mask) {
  for (MaskedProblem& masked : masked_problems()) {
    masked.problem.schemes = {deberta(masked.problem.shape, 16, 60, true)};
    expect_on_every_target(masked.problem, masked.name);
  }
}

TEST(attention_key_table, every_reading_of_deberta) {
  for (const ref::DebertaReading reading : {ref::DebertaReading::hf, ref::DebertaReading::microsoft, ref::DebertaReading::hf_swapped}) {
    ref::Problem p = random_problem({.batch = 1, .queries = 80, .keys = 130, .heads = 4, .key_heads = 2, .width = 5, .value_width = 3}, 2);
    ref::Deberta scheme = deberta(p.shape, 12, 24);
    scheme.p2c = reading;
    p.schemes = {scheme};
    expect_on_every_target(p, "reading " + std::to_string(static_cast<int>(reading)));
  }
}

TEST(attention_key_table, clips_at_and_around_the_edges_of_tiles) {
  for (const std::int64_t span : {1, 2, 15, 16, 17, 63, 64, 65, 95, 96, 97, 111, 112, 113, 300}) {
    ref::Problem p = random_problem({.batch = 1, .queries = 200, .keys = 211, .heads = 2, .key_heads = 1, .width = 5, .value_width = 3}, 3);
    p.schemes = {deberta(p.shape, 0, span)};
    expect_on_every_target(p, "span " + std::to_string(span));
  }
}

TEST(attention_key_table, lengths_around_the_edges_of_strips_and_tiles) {
  for (const auto& [queries, keys] : {std::pair<std::int64_t, std::int64_t>{1, 1}, {1, 300}, {95, 15}, {96, 16}, {97, 17}, {193, 65}}) {
    ref::Problem p =
        random_problem({.batch = 2, .queries = queries, .keys = keys, .heads = 2, .key_heads = 2, .width = 20, .value_width = 3}, 4);
    p.schemes = {deberta(p.shape, 0, 40)};
    expect_on_every_target(p, std::to_string(queries) + " queries, " + std::to_string(keys) + " keys");
  }
}

constexpr ref::Shape kShape{.batch = 2, .queries = 110, .keys = 150, .heads = 4, .key_heads = 2, .width = 5, .value_width = 3};

TEST(attention_key_table, what_the_mask_hides_takes_no_part) {
  ref::Problem p = random_problem(kShape, 5);
  p.visibility.key_mask.assign(2 * 150, 1);
  for (std::size_t j = 0; j < 300; j += 3) p.visibility.key_mask[j] = 0;
  p.schemes = {deberta(p.shape, 0, 20)};
  expect_on_every_target(with_nan_behind_the_mask(p), "masked");
}

TEST(attention_key_table, the_order_of_tasks_does_not_matter) {
  ref::Problem p = random_problem(kShape, 6);
  p.schemes = {deberta(p.shape, 12, 40, true)};
  expect_same_bits_by_any_runner(p, "deberta");
}

/// The clip of DeBERTa's first version as ClipRows: rows run by key - query, the other way round.
TEST(attention_key_table, clip_rows_are_debertas_the_other_way_round) {
  ref::Problem p = random_problem(kShape, 7);
  const std::int64_t span = 20;
  p.schemes = {deberta(p.shape, 0, span)};
  Bridge bridge(p, DType::f64);
  Wanted wanted(bridge.problem, DType::f64);
  auto& term = std::get<TableTerm>(bridge.spec.terms[0]);
  TensorView& gradient = bridge.gradients.terms[0].table;
  term.table.data = static_cast<const double*>(term.table.data) + (2 * span - 1) * term.table.strides[1];
  gradient.data = static_cast<double*>(gradient.data) + (2 * span - 1) * gradient.strides[1];
  term.table.strides[1] = -term.table.strides[1];
  gradient.strides[1] = -gradient.strides[1];
  term.rows = ClipRows{span - 1, span};
  expect_wanted(bridge, wanted, DType::f64, "clip rows");
}

/// Outside the rows nothing is added: as if rows of zeros stood at both ends.
TEST(attention_key_table, zero_outside_is_a_row_of_zeros) {
  ref::Problem p = random_problem(kShape, 8);
  ref::Deberta scheme = deberta(p.shape, 0, 20);
  const std::size_t row = 5;
  for (std::size_t h = 0; h < 4; ++h) {
    std::fill_n(scheme.queries.begin() + static_cast<std::ptrdiff_t>(h * 40 * row), row, 0);
    std::fill_n(scheme.queries.begin() + static_cast<std::ptrdiff_t>((h * 40 + 39) * row), row, 0);
  }
  p.schemes = {scheme};
  Bridge bridge(p, DType::f64);
  Wanted wanted(bridge.problem, DType::f64);
  auto& term = std::get<TableTerm>(bridge.spec.terms[0]);
  TensorView& gradient = bridge.gradients.terms[0].table;
  term.table.data = static_cast<const double*>(term.table.data) + 38 * term.table.strides[1];
  gradient.data = static_cast<double*>(gradient.data) + 38 * gradient.strides[1];
  term.table.strides[1] = -term.table.strides[1];
  gradient.strides[1] = -gradient.strides[1];
  term.table.shape[1] = gradient.shape[1] = 38;
  term.rows = ClipRows{18, 19, OutsideRows::zero};
  auto& theirs = std::get<ref::Deberta>(wanted.gradients.schemes[0]).queries;
  for (std::size_t h = 0; h < 4; ++h) {
    std::fill_n(theirs.begin() + static_cast<std::ptrdiff_t>(h * 40 * row), row, 0);
    std::fill_n(theirs.begin() + static_cast<std::ptrdiff_t>((h * 40 + 39) * row), row, 0);
  }
  expect_wanted(bridge, wanted, DType::f64, "zero outside");
}

/// Features that are a copy of k, of the other float: their gradient and that of k make up the reference's.
TEST(attention_key_table, features_in_the_place_of_keys) {
  for (const DType dtype : {DType::f64, DType::f32}) {
    ref::Problem p = random_problem(kShape, 9);
    p.visibility.causal = true;
    p.schemes = {deberta(p.shape, 0, 30)};
    Bridge bridge(p, dtype);
    Wanted wanted(bridge.problem, dtype);
    const ref::Values features = bridge.problem.k;
    ref::Values gradient(features.size(), 0);
    const Extents shape{2, 150, 2, 5};
    std::get<TableTerm>(bridge.spec.terms[0]).features = view(features.data(), shape);
    bridge.gradients.terms[0].features = view(gradient.data(), shape);
    ASSERT_TRUE(bridge.forward().ok());
    expect_near(bridge.output().out, wanted.output.out, dtype, "out");
    ASSERT_TRUE(bridge.backward(wanted.out_gradient, wanted.lse_gradient).ok());
    ref::Gradients is = bridge.reference_gradients();
    ref::Values sum = is.k;
    for (std::size_t n = 0; n < sum.size(); ++n) sum[n] += gradient[n];
    expect_near(sum, wanted.gradients.k, dtype, "dk and dfeatures");
    EXPECT_GT(apart(is.k, wanted.gradients.k), 1e-3);
    expect_near(is.q, wanted.gradients.q, dtype, "dq");
    expect_scheme_gradients(is, wanted.gradients, dtype, "features");
  }
}

/// A narrower vector for all key heads and batch rows, and a table that heads share.
TEST(attention_key_table, shared_features_and_table) {
  ref::Problem p = random_problem(kShape, 10);
  Numbers random(11);
  const ref::Values table = random.values(7 * 3);
  const ref::Values features = random.values(150 * 3);
  ref::Values table_gradient(table.size(), 0);
  ref::Values feature_gradient(features.size(), 0);
  // The reference: a dense bias.
  ref::Dense dense{.extents = {1, 1, 110, 150}};
  const auto row_of = [](std::int64_t i, std::int64_t j) { return std::clamp<std::int64_t>(j - (i + 40), -4, 2) + 4; };
  for (std::int64_t n = 0; n < 110 * 150; ++n) {
    double sum = 0;
    for (std::int64_t c = 0; c < 3; ++c) {
      sum += 0.5 * table[static_cast<std::size_t>(row_of(n / 150, n % 150) * 3 + c)] * features[static_cast<std::size_t>(n % 150 * 3 + c)];
    }
    dense.bias.push_back(sum);
  }
  p.schemes = {dense};
  Bridge bridge(p, DType::f64);
  Wanted wanted(bridge.problem, DType::f64);
  bridge.spec.terms = {TableTerm{.side = TableSide::key,
                                 .table = view(table.data(), {1, 7, 1, 3}),
                                 .rows = ClipRows{4, 2},
                                 .features = view(features.data(), {1, 150, 1, 3}),
                                 .scale = 0.5}};
  bridge.gradients.terms[0] = {.table = view(table_gradient.data(), {1, 7, 1, 3}),
                               .features = view(feature_gradient.data(), {1, 150, 1, 3})};
  ASSERT_TRUE(bridge.forward().ok()) << bridge.forward().message();
  expect_near(bridge.output().out, wanted.output.out, DType::f64, "out");
  ASSERT_TRUE(bridge.backward(wanted.out_gradient, wanted.lse_gradient).ok());
  ref::Values by_table(table.size(), 0);
  ref::Values by_features(features.size(), 0);
  const ref::Values& ds = std::get<ref::Dense>(wanted.gradients.schemes[0]).bias;
  for (std::int64_t n = 0; n < 110 * 150; ++n) {
    for (std::int64_t c = 0; c < 3; ++c) {
      const auto row = static_cast<std::size_t>(row_of(n / 150, n % 150) * 3 + c);
      const auto key = static_cast<std::size_t>(n % 150 * 3 + c);
      by_table[row] += 0.5 * ds[static_cast<std::size_t>(n)] * features[key];
      by_features[key] += 0.5 * ds[static_cast<std::size_t>(n)] * table[row];
    }
  }
  expect_near(table_gradient, by_table, DType::f64, "table");
  expect_near(feature_gradient, by_features, DType::f64, "features");
}

/// A table of its own for each batch row is as each row by itself.
TEST(attention_key_table, batch_rows_with_tables_of_their_own) {
  ref::Problem p = random_problem(kShape, 12);
  p.schemes = {deberta(p.shape, 0, 9)};
  Bridge whole(p, DType::f64);
  Numbers random(13);
  const ref::Values tables = random.values(2 * 18 * 4 * 5);
  std::get<TableTerm>(whole.spec.terms[0]).table = view(tables.data(), {2, 18, 4, 5});
  ref::Values gradients(tables.size(), 0);
  whole.gradients.terms[0].table = view(gradients.data(), {2, 18, 4, 5});
  Wanted wanted(whole.problem, DType::f64);
  ASSERT_TRUE(whole.forward().ok());
  ASSERT_TRUE(whole.backward(wanted.out_gradient).ok());
  const ref::Values out = whole.output().out;
  for (std::int64_t b = 0; b < 2; ++b) {
    const auto half = [b](const ref::Values& x) {
      const auto n = static_cast<std::ptrdiff_t>(x.size() / 2);
      return ref::Values(x.begin() + b * n, x.begin() + (b + 1) * n);
    };
    ref::Problem one = p;
    one.shape.batch = 1;
    one.q = half(p.q), one.k = half(p.k), one.v = half(p.v);
    Bridge alone(one, DType::f64);
    ref::Values gradient(tables.size() / 2, 0);
    std::get<TableTerm>(alone.spec.terms[0]).table = view(tables.data() + b * 360, {1, 18, 4, 5});
    alone.gradients.terms[0].table = view(gradient.data(), {1, 18, 4, 5});
    ASSERT_TRUE(alone.forward().ok());
    expect_near(alone.output().out, half(out), DType::f64, "out");
    ASSERT_TRUE(alone.backward(half(wanted.out_gradient)).ok());
    expect_near(gradient, half(gradients), DType::f64, "table");
  }
}

TEST(attention_key_table, what_does_not_fit_is_an_error) {
  ref::Problem p = random_problem(kShape, 14);
  p.schemes = {deberta(p.shape, 0, 9)};
  Bridge bridge(p, DType::f32);
  auto& term = std::get<TableTerm>(bridge.spec.terms[0]);
  const TableTerm good = term;
  term.shift = term.table;
  EXPECT_EQ(failure_of(bridge), "attention: terms[0]: there is a shift, wanted none on the key side");
  term = good;
  term.table.shape[1] = 17;
  EXPECT_EQ(failure_of(bridge), "attention: terms[0]: table has 17 rows, wanted 18 as its buckets have");
  term = good;
  term.features = bridge.inputs.q;
  EXPECT_EQ(failure_of(bridge), "attention: terms[0]: features has 110 on its second axis, wanted 150");
}

}  // namespace
}  // namespace phasor::test
