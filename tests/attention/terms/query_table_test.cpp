// SPDX-License-Identifier: Apache-2.0
// Query-side tables against the reference: clips, buckets, sliding tables, features, every kind of mask.
#include <gtest/gtest.h>

#include <algorithm>

#include "attention/support/table_problems.hpp"

namespace phasor::test {
namespace {

/// Longer than two tiles of queries and three of keys.
constexpr ref::Shape kShape{.batch = 1, .queries = 200, .keys = 211, .heads = 2, .key_heads = 1, .width = 5, .value_width = 3};

ref::Shaw shaw_keys(const ref::Shape& s, std::int64_t left, std::int64_t right, bool per_head = false) {
  Numbers random(static_cast<std::uint64_t>(left * 1000 + right));
  const std::int64_t rows = (left + 1 + right) * (per_head ? s.heads : 1);
  return {.left = left, .right = right, .per_head = per_head, .keys = random.values(rows * s.width)};
}

TEST(attention_query_table, shaw_clips_at_and_around_the_edges_of_tiles) {
  for (const std::int64_t w : {0, 1, 63, 64, 65, 95, 96, 97, 210, 300}) {
    ref::Problem p = random_problem(kShape, static_cast<std::uint64_t>(w));
    p.schemes = {shaw_keys(p.shape, w, w)};
    expect_as_reference(p, "w = " + std::to_string(w));
  }
}

TEST(attention_query_table, shaw_clips_that_differ_left_and_right) {
  for (const auto& [left, right] : {std::pair<std::int64_t, std::int64_t>{64, 8}, {0, 130}, {199, 0}, {3, 0}, {0, 0}, {150, 149}}) {
    ref::Problem p = random_problem(kShape, 3);
    p.schemes = {shaw_keys(p.shape, left, right, true)};
    expect_as_reference(p, std::to_string(left) + " and " + std::to_string(right));
  }
}

TEST(attention_query_table, shaw_under_every_mask) {
  for (MaskedProblem& masked : masked_problems()) {
    masked.problem.schemes = {shaw_keys(masked.problem.shape, 17, 9, true)};
    expect_as_reference(masked.problem, masked.name);
  }
}

TEST(attention_query_table, transformer_xl_under_every_mask) {
  for (MaskedProblem& masked : masked_problems()) {
    masked.problem.schemes = {xl_table(masked.problem.shape, 750)};
    expect_as_reference(masked.problem, masked.name);
  }
}

TEST(attention_query_table, conformer_interleaves_its_sinusoids) {
  for (const ref::XlOrder order : {ref::XlOrder::halves, ref::XlOrder::interleaved}) {
    ref::Problem p = random_problem({.batch = 1, .queries = 101, .keys = 101, .heads = 2, .key_heads = 2, .width = 4, .value_width = 4}, 5);
    Numbers random(6);
    p.schemes = {random_xl(p.shape, random, order)};
    expect_as_reference(p, "order " + std::to_string(static_cast<int>(order)));
  }
}

/// One table per batch row: every second one is read backwards.
TEST(attention_query_table, xlnet_reads_batch_rows_in_both_directions) {
  for (const std::int64_t clamp : {0, 40, 150}) {
    ref::Problem p = random_problem({.batch = 3, .queries = 180, .keys = 190, .heads = 2, .key_heads = 1, .width = 4, .value_width = 2}, 7);
    p.schemes = {ref::Xlnet{.xl = xl_table(p.shape, 200), .clamp = clamp, .direction = {1, -1, 1}}};
    expect_as_reference(p, "clamp " + std::to_string(clamp));
  }
}

TEST(attention_query_table, inkling_has_features_of_its_own_width) {
  for (const std::int64_t extent : {1, 40, 130, 260}) {
    ref::Problem p = random_problem(kShape, 8);
    Numbers random(9);
    p.visibility.causal = extent != 40;  // what is outside adds nothing, on both sides
    p.schemes = {ref::Inkling{.extent = extent,
                              .feature_width = 16,
                              .features = random.values(p.shape.queries * p.shape.heads * 16),
                              .table = random.values(16 * extent),
                              .alpha = 0.3,
                              .floor = 4}};
    expect_as_reference(p, "extent " + std::to_string(extent));
  }
}

TEST(attention_query_table, deberta_in_its_three_readings_and_without_buckets) {
  for (const std::int64_t buckets : {0, 8, 32}) {
    for (const ref::DebertaReading reading : {ref::DebertaReading::hf, ref::DebertaReading::microsoft, ref::DebertaReading::hf_swapped}) {
      ref::Problem p = random_problem(kShape, 10);
      Numbers random(11);
      ref::Deberta deberta{.buckets = buckets, .max_distance = buckets == 0 ? 30 : 100, .c2p = reading, .p2c = reading};
      deberta.keys = random.values(p.shape.heads * 2 * (buckets == 0 ? 30 : buckets) * p.shape.width);
      p.schemes = {deberta};
      expect_as_reference(p, std::to_string(buckets) + " buckets, reading " + std::to_string(static_cast<int>(reading)));
    }
  }
}

TEST(attention_query_table, deberta_under_every_mask) {
  for (MaskedProblem& masked : masked_problems()) {
    Numbers random(11);
    const ref::Shape& s = masked.problem.shape;
    masked.problem.schemes = {ref::Deberta{.buckets = 16, .max_distance = 80, .keys = random.values(s.heads * 32 * s.width)}};
    expect_as_reference(masked.problem, masked.name);
  }
}

/// Buckets of so many distances that products are looked up, not laid out.
TEST(attention_query_table, buckets_may_tell_many_distances_apart) {
  ref::Problem p = random_problem({.batch = 1, .queries = 70, .keys = 90, .heads = 2, .key_heads = 1, .width = 3, .value_width = 2}, 12);
  Numbers random(13);
  p.query_positions = shuffled(70);
  for (std::int64_t j = 0; j < 90; ++j) p.key_positions.push_back(j * j * 2 - 8000);
  p.schemes = {ref::Deberta{.buckets = 16, .max_distance = 9000, .keys = random.values(2 * 32 * 3)}};
  expect_as_reference(p, "looked up");
}

/// WavLM's gated bias is a table of width 1 that meets the gate.
TEST(attention_query_table, a_gated_bias_is_a_table_of_width_one) {
  ref::Problem p = random_problem({.batch = 2, .queries = 150, .keys = 160, .heads = 3, .key_heads = 3, .width = 4, .value_width = 4}, 14);
  Numbers random(15);
  const std::int64_t heads = 3;
  p.schemes = {ref::WavLm{{.buckets = 32, .max_distance = 128, .both_sides = true, .table = random.values(heads * 32)},
                          random.values(2 * 150 * heads)}};
  Bridge bridge(p, DType::f64);
  const auto& wavlm = std::get<ref::WavLm>(bridge.problem.schemes[0]);
  const BiasTerm gated = std::get<BiasTerm>(bridge.spec.terms[0]);
  const Seen seen{{1, 32, heads, 1}, {0, 1, 32, 1}};
  Store store;
  Numbered& gradient = store.make(heads * 32, DType::f64);
  bridge.spec.terms = {TableTerm{.side = TableSide::query,
                                 .table = store.hold(wavlm.bias.table, DType::f64).view(seen),
                                 .rows = gated.bias,
                                 .features = gated.gate,
                                 .scale = 1}};
  bridge.gradients.terms[0].parameters = {};
  bridge.gradients.terms[0].table = gradient.view(seen);
  ASSERT_TRUE(bridge.forward().ok()) << bridge.forward().message();
  const ref::Output wanted = ref::forward(bridge.problem);
  expect_near(bridge.output().out, wanted.out, DType::f64, "out");
  const ref::Values out_gradient = random.values(static_cast<std::int64_t>(wanted.out.size()));
  ASSERT_TRUE(bridge.backward(out_gradient).ok());
  const ref::Gradients is = bridge.reference_gradients();
  const ref::Gradients theirs = ref::backward(bridge.problem, out_gradient);
  const auto& own = std::get<ref::WavLm>(is.schemes[0]);
  const auto& others = std::get<ref::WavLm>(theirs.schemes[0]);
  expect_near(is.q, theirs.q, DType::f64, "dq");
  expect_near(own.gate, others.gate, DType::f64, "d gate");
  expect_near(gradient.values(), others.bias.table, DType::f64, "d table");
}

/// Distances outside add nothing: as a table with a row of zeros at both ends.
TEST(attention_query_table, distances_outside_may_add_nothing) {
  for (const std::int64_t w : {1, 20, 64, 150, 190}) {
    ref::Problem p = random_problem(kShape, 16);
    ref::Shaw shaw = shaw_keys(p.shape, w + 1, w);
    std::fill_n(shaw.keys.begin(), p.shape.width, 0.0);
    std::fill_n(shaw.keys.end() - p.shape.width, p.shape.width, 0.0);
    p.schemes = {shaw};
    Bridge bridge(p, DType::f64);
    auto& term = std::get<TableTerm>(bridge.spec.terms[0]);
    TensorView& gradient = bridge.gradients.terms[0].table;
    const std::int64_t row_bytes = term.table.strides[1] * 8;
    term.rows = ClipRows{w, w - 1, OutsideRows::zero};
    term.table.shape[1] = gradient.shape[1] = 2 * w;
    term.table.data = static_cast<const char*>(term.table.data) + row_bytes;
    gradient.data = static_cast<char*>(gradient.data) + row_bytes;
    ASSERT_TRUE(bridge.forward().ok()) << bridge.forward().message();
    const ref::Output wanted = ref::forward(bridge.problem);
    expect_near(bridge.output().out, wanted.out, DType::f64, "out, w = " + std::to_string(w));
    Numbers random(17);
    const ref::Values out_gradient = random.values(static_cast<std::int64_t>(wanted.out.size()));
    ASSERT_TRUE(bridge.backward(out_gradient).ok());
    const ref::Gradients is = bridge.reference_gradients();
    ref::Gradients theirs = ref::backward(bridge.problem, out_gradient);
    auto& keys = std::get<ref::Shaw>(theirs.schemes[0]).keys;
    std::fill_n(keys.begin(), p.shape.width, 0.0);
    std::fill_n(keys.end() - p.shape.width, p.shape.width, 0.0);
    expect_near(is.q, theirs.q, DType::f64, "dq, w = " + std::to_string(w));
    expect_near(std::get<ref::Shaw>(is.schemes[0]).keys, keys, DType::f64, "d keys, w = " + std::to_string(w));
  }
}

/// Gradients by q, table, features and shift of a call that has them all; `only` alone, or below 0 together.
std::vector<ref::Values> gradients_of(const ref::Problem& p, int only) {
  Numbers random(19);
  Bridge bridge(p, DType::f64);
  Store store;
  const Seen seen = as_is({1, p.shape.queries, p.shape.heads, p.shape.width});
  const Seen shift_seen = as_is({1, 1, p.shape.heads, p.shape.width});
  const std::int64_t count = p.shape.queries * p.shape.heads * p.shape.width;
  auto& term = std::get<TableTerm>(bridge.spec.terms[0]);
  term.features = store.hold(random.values(count), DType::f64).view(seen);
  term.shift = store.hold(random.values(p.shape.heads * p.shape.width), DType::f64).view(shift_seen);
  Numbered& by_features = store.make(count, DType::f64);
  Numbered& by_shift = store.make(p.shape.heads * p.shape.width, DType::f64);
  TermGradient& gradient = bridge.gradients.terms[0];
  const auto wants = [only](int n) { return only < 0 || only == n; };
  if (only >= 0) bridge.gradients.k = bridge.gradients.v = {};
  if (!wants(0)) bridge.gradients.q = {};
  if (!wants(1)) gradient.table = {};
  if (wants(2)) gradient.features = by_features.view(seen);
  if (wants(3)) gradient.shift = by_shift.view(shift_seen);
  expect_ok(bridge.forward());
  expect_ok(bridge.backward(random.values(p.shape.queries * p.shape.heads * p.shape.value_width)));
  const ref::Gradients is = bridge.reference_gradients();
  return {is.q, std::get<ref::Shaw>(is.schemes[0]).keys, by_features.values(), by_shift.values()};
}

TEST(attention_query_table, gradients_are_the_same_alone_and_together) {
  for (const std::int64_t w : {30, 205}) {
    ref::Problem p = random_problem(kShape, 18);
    p.visibility.causal = w == 205;
    p.schemes = {shaw_keys(p.shape, w, w, true)};
    const std::vector<ref::Values> together = gradients_of(p, -1);
    for (std::size_t only = 0; only < together.size(); ++only) {
      const std::vector<ref::Values> alone = gradients_of(p, static_cast<int>(only));
      EXPECT_GT(largest_magnitude(together[only]), 1e-3) << only;
      EXPECT_EQ(alone[only], together[only]) << only;
      for (std::size_t n = 0; n < alone.size(); ++n) EXPECT_EQ(largest_magnitude(alone[n]) == 0, n != only) << only << ", " << n;
    }
  }
}

// ---- Laws ----

ref::Output output_of(const ref::Problem& p, DType dtype) {
  Bridge bridge(p, dtype);
  const Status status = bridge.forward();
  EXPECT_TRUE(status.ok()) << status.message();
  return bridge.output();
}

TEST(attention_query_table, a_table_of_zeros_changes_no_bit) {
  for (const std::int64_t w : {3, 64, 210}) {
    for (const DType dtype : {DType::f32, DType::f64}) {
      ref::Problem p = random_problem(kShape, 20);
      const ref::Output plain = output_of(p, dtype);
      p.schemes = {ref::Shaw{.left = w, .right = w, .keys = ref::Values(static_cast<std::size_t>((2 * w + 1) * p.shape.width), 0)}};
      const ref::Output is = output_of(p, dtype);
      EXPECT_EQ(is.out, plain.out) << w;
      EXPECT_EQ(is.lse, plain.lse) << w;
    }
  }
}

TEST(attention_query_table, transformer_xl_without_biases_is_shaw_without_a_clip) {
  ref::Problem p = random_problem(kShape, 21);
  ref::TransformerXl xl = xl_table(p.shape, 210);
  std::fill(xl.u.begin(), xl.u.end(), 0);
  std::fill(xl.v.begin(), xl.v.end(), 0);
  p.schemes = {xl};
  const ref::Output wanted = output_of(p, DType::f64);
  // Rows by distance, turned round: by key - query.
  ref::Shaw shaw{.left = 210, .right = 210, .per_head = true};
  for (std::int64_t h = 0; h < p.shape.heads; ++h) {
    for (std::int64_t row = 420; row >= 0; --row) {
      const auto from = xl.table.begin() + (h * 421 + row) * p.shape.width;
      shaw.keys.insert(shaw.keys.end(), from, from + p.shape.width);
    }
  }
  p.schemes = {shaw};
  expect_same(output_of(p, DType::f64), wanted, "Shaw");
}

TEST(attention_query_table, a_mirrored_sequence_with_a_mirrored_table_gives_mirrored_outputs) {
  for (const std::int64_t w : {20, 70, 199}) {
    ref::Problem p =
        random_problem({.batch = 1, .queries = 200, .keys = 200, .heads = 2, .key_heads = 2, .width = 4, .value_width = 4}, 22);
    p.schemes = {shaw_keys(p.shape, w, w)};
    const ref::Output forwards = output_of(p, DType::f64);
    ref::Problem mirrored = p;
    const auto mirror = [](ref::Values& x, std::int64_t rows) {
      const auto width = static_cast<std::ptrdiff_t>(x.size()) / rows;
      ref::Values result;
      for (std::ptrdiff_t row = rows; row-- > 0;) result.insert(result.end(), x.begin() + row * width, x.begin() + (row + 1) * width);
      x = result;
    };
    for (ref::Values* x : {&mirrored.q, &mirrored.k, &mirrored.v}) mirror(*x, 200);
    mirror(std::get<ref::Shaw>(mirrored.schemes[0]).keys, 2 * w + 1);
    ref::Output backwards = output_of(mirrored, DType::f64);
    mirror(backwards.out, 200);
    EXPECT_LE(apart(backwards.out, forwards.out), kSameTolerance) << w;
  }
}

TEST(attention_query_table, keys_may_come_in_any_order_with_their_positions) {
  for (const std::int64_t w : {20, 210}) {
    ref::Problem p = random_problem(kShape, 23);
    p.schemes = {shaw_keys(p.shape, w, w)};
    const ref::Output in_order = output_of(p, DType::f64);
    p.key_positions = shuffled(p.shape.keys);
    for (std::int64_t i = 0; i < p.shape.queries; ++i) p.query_positions.push_back(i + p.shape.keys - p.shape.queries);
    const ref::Problem ordered = p;
    for (std::size_t j = 0; j < p.key_positions.size(); ++j) {
      const auto from = static_cast<std::ptrdiff_t>(p.key_positions[j]);
      const auto to = static_cast<std::ptrdiff_t>(j);
      std::copy_n(ordered.k.begin() + from * p.shape.width, p.shape.width, p.k.begin() + to * p.shape.width);
      std::copy_n(ordered.v.begin() + from * p.shape.value_width, p.shape.value_width, p.v.begin() + to * p.shape.value_width);
    }
    EXPECT_LE(apart(output_of(p, DType::f64).out, in_order.out), kSameTolerance) << w;
  }
}

}  // namespace
}  // namespace phasor::test
