// SPDX-License-Identifier: Apache-2.0
// Dropout: the reference's own gradients by differences, then the library against it on every target, path and mask; the same weights are
// dropped whatever the tiles, the order of tasks and the shards; their share and their neighbours are those of chance.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "attention/support/every_target.hpp"
#include "attention/support/finite_differences.hpp"
#include "attention/weights_call.hpp"

namespace phasor::test {
namespace {

constexpr ref::Dropout kThird = {.probability = 0.3, .seed = 0x1234567890abcdef, .offset = 0x500000003};

// ---- The reference ----

TEST(attention_dropout, gradients_of_the_reference_are_its_differences) {
  const ref::Shape shape{.batch = 2, .queries = 3, .keys = 7, .heads = 2, .key_heads = 1, .width = 4, .value_width = 2};
  for (const NamedScheme& one : every_scheme(shape, 7)) {
    ref::Problem p = random_problem(shape, 5);
    p.schemes = {one.scheme};
    p.visibility.causal = one.causal_only;
    p.dropout = kThird;
    const Loss loss(p, 99);
    const Comparison c = compare_with_differences(p, ref::backward(p, loss.out, loss.lse), loss);
    EXPECT_LE(c.worst, kDifferenceTolerance) << one.name << " " << c.where;
    EXPECT_GT(c.count, 0U);
  }
}

// ---- The library against the reference ----

TEST(attention_dropout, every_shape_and_mask_as_the_reference) {
  for (const ref::Shape& shape : edge_shapes()) {
    for (const NamedMask& mask : every_mask(shape)) {
      ref::Problem p = random_problem(shape, 11);
      p.visibility = mask.visibility;
      p.dropout = kThird;
      expect_as_reference(p, std::to_string(shape.queries) + " x " + std::to_string(shape.keys) + ", " + mask.name);
    }
  }
}

TEST(attention_dropout, narrow_dtypes_and_decoding_as_the_reference) {
  for (const std::int64_t queries : {1, 3, 8, 40}) {
    ref::Problem p =
        random_problem({.batch = 2, .queries = queries, .keys = 700, .heads = 6, .key_heads = 2, .width = 32, .value_width = 32}, 12);
    p.dropout = kThird;
    for (const DType dtype : {DType::f64, DType::f32, DType::f16, DType::bf16}) expect_forward(p, dtype, std::to_string(queries));
  }
}

ref::Shape several_tiles() { return {.batch = 1, .queries = 101, .keys = 131, .heads = 2, .key_heads = 1, .width = 8, .value_width = 6}; }

/// A table, values with a table of their own, positions that CoPE counts, rotations, soft cap.
std::vector<NamedScheme> some_schemes(const ref::Shape& s) {
  Numbers random(13);
  const std::int64_t rows = 12 * s.heads;
  return {
      {"t5", random_t5(s, random, true)},
      {"alibi", ref::Alibi{random.values(s.heads, 0.01, 0.1)}},
      {"shaw",
       ref::Shaw{
           .left = 8, .right = 3, .per_head = true, .keys = random.values(rows * s.width), .values = random.values(rows * s.value_width)}},
      {"xl", xl_table(s, 400)},
      {"cope", ref::Cope{.rows = 9, .per_head = true, .table = random.values(9 * s.heads * s.width)}, true}};
}

TEST(attention_dropout, schemes_as_the_reference_on_every_target) {
  const ref::Shape shape = several_tiles();
  for (const NamedScheme& one : some_schemes(shape)) {
    ref::Problem p = random_problem(shape, 14);
    p.schemes = {one.scheme};
    p.visibility.causal = one.causal_only;
    p.softcap = one.name == "t5" ? 3 : 0;
    p.dropout = kThird;
    expect_on_every_target(p, one.name);
  }
}

TEST(attention_dropout, the_order_of_tasks_does_not_matter) {
  const ref::Shape shape = several_tiles();
  for (const NamedScheme& one : some_schemes(shape)) {
    ref::Problem p = random_problem(shape, 15);
    p.schemes = {one.scheme};
    p.visibility.causal = true;
    p.dropout = kThird;
    expect_same_bits_by_any_runner(p, one.name);
  }
}

TEST(attention_dropout, positions_in_any_order_and_sign) {
  ref::Problem p = random_problem({.batch = 1, .queries = 100, .keys = 150, .heads = 2, .key_heads = 1, .width = 8, .value_width = 5}, 16);
  p.dropout = kThird;
  p.query_positions = shuffled(100, -50);
  p.key_positions = shuffled(150, -70);
  expect_as_reference(p, "shuffled");
  for (std::int64_t& x : p.key_positions) x = x * (std::int64_t{1} << 40) + 3;
  for (std::int64_t& x : p.query_positions) x = x * -(std::int64_t{1} << 41) - 1;
  expect_as_reference(p, "far apart");
  p.key_positions.assign(150, 5);
  expect_as_reference(p, "all at one position");
  for (std::int64_t n = 0; n < 150; ++n) p.key_positions[static_cast<std::size_t>(n)] = n - 75;
  expect_as_reference(p, "keys in order, from an odd negative position on");
}

TEST(attention_dropout, packed_sequences) {
  ref::Problem p = random_problem({.batch = 1, .queries = 240, .keys = 310, .heads = 4, .key_heads = 2, .width = 6, .value_width = 3}, 17);
  p.visibility.query_starts = {0, 1, 1, 100, 105, 240};
  p.visibility.key_starts = {0, 3, 8, 110, 170, 310};
  p.dropout = kThird;
  expect_as_reference(p, "packed");
  p.visibility.causal = true;
  Numbers random(18);
  p.schemes = {random_t5(p.shape, random, true)};
  expect_as_reference(p, "packed, T5");
  p.dropout.first_head = 5;
  p.dropout.first_sequence = 77;
  expect_as_reference(p, "packed, a part of more");
  p.sinks = {0.5, -2, 1, 3};
  expect_as_reference(p, "packed, beside sinks");
}

// ---- Nothing at probability 0 ----

TEST(attention_dropout, none_is_the_same_bits) {
  for (const std::int64_t queries : {3, 101}) {
    ref::Shape shape = several_tiles();
    shape.queries = queries;
    ref::Problem p = random_problem(shape, 19);
    ref::Problem seeded = p;
    seeded.dropout = {.probability = 0, .seed = 5, .offset = 6, .first_head = 7, .first_sequence = 8};
    Bridge without(p, DType::f32);
    Bridge with(seeded, DType::f32);
    const Loss loss(p, 20);
    for (Bridge* bridge : {&without, &with}) {
      ASSERT_TRUE(bridge->forward().ok());
      ASSERT_TRUE(bridge->backward(loss.out, loss.lse).ok());
    }
    EXPECT_EQ(without.output().out, with.output().out);
    EXPECT_EQ(without.output().lse, with.output().lse);
    const ref::Gradients a = without.reference_gradients();
    const ref::Gradients b = with.reference_gradients();
    EXPECT_EQ(a.q, b.q);
    EXPECT_EQ(a.k, b.k);
    EXPECT_EQ(a.v, b.v);
  }
}

TEST(attention_dropout, lse_does_not_know_of_it) {
  ref::Problem p = random_problem(several_tiles(), 21);
  Bridge without(p, DType::f32);
  p.dropout = kThird;
  Bridge with(p, DType::f32);
  ASSERT_TRUE(without.forward().ok());
  ASSERT_TRUE(with.forward().ok());
  EXPECT_EQ(without.output().lse, with.output().lse);
  EXPECT_NE(without.output().out, with.output().out);
}

// ---- Shards ----

/// Tokens first to end - 1 of rows of `row` numbers, in a batch of one.
ref::Values tokens_of(const ref::Values& all, std::int64_t first, std::int64_t end, std::int64_t row) {
  return {all.begin() + first * row, all.begin() + end * row};
}

TEST(attention_dropout, shards_of_a_sequence_draw_what_the_whole_does) {
  ref::Problem whole =
      random_problem({.batch = 1, .queries = 149, .keys = 149, .heads = 2, .key_heads = 2, .width = 8, .value_width = 5}, 22);
  whole.visibility.causal = true;
  whole.dropout = kThird;
  Bridge wanted(whole, DType::f64);
  ASSERT_TRUE(wanted.forward().ok());
  const std::int64_t cuts[] = {0, 70, 149};
  for (const std::int64_t queries_from : {0, 67, 145}) {  // the last few decode
    ref::Problem of_queries = whole;
    of_queries.shape.queries = 149 - queries_from;
    of_queries.q = tokens_of(whole.q, queries_from, 149, 16);
    for (std::int64_t i = queries_from; i < 149; ++i) of_queries.query_positions.push_back(i);
    std::vector<std::unique_ptr<Bridge>> bridges;
    std::vector<AttentionPart> parts;
    for (int part = 0; part < 2; ++part) {
      ref::Problem p = of_queries;
      p.shape.keys = cuts[part + 1] - cuts[part];
      p.k = tokens_of(whole.k, cuts[part], cuts[part + 1], 16);
      p.v = tokens_of(whole.v, cuts[part], cuts[part + 1], 10);
      for (std::int64_t j = cuts[part]; j < cuts[part + 1]; ++j) p.key_positions.push_back(j);
      bridges.push_back(std::make_unique<Bridge>(p, DType::f64));
      ASSERT_TRUE(bridges.back()->forward().ok());
      parts.push_back({bridges.back()->outputs.out, bridges.back()->outputs.lse});
    }
    ASSERT_TRUE(merge_attention(parts, bridges[0]->outputs).ok());
    EXPECT_LE(far_apart(bridges[0]->output().out, tokens_of(wanted.output().out, queries_from, 149, 10)), 1e-14) << queries_from;
  }
}

TEST(attention_dropout, shards_of_heads_and_of_batches_draw_what_the_whole_does) {
  const ref::Shape shape{.batch = 3, .queries = 20, .keys = 30, .heads = 4, .key_heads = 4, .width = 4, .value_width = 3};
  ref::Problem p = random_problem(shape, 23);
  p.dropout = kThird;
  const Bridge whole(p, DType::f32);
  const Block<float> wanted = all_weights<float>(whole);
  ref::Problem part = random_problem({.batch = 1, .queries = 20, .keys = 30, .heads = 2, .key_heads = 1, .width = 4, .value_width = 3}, 24);
  part.dropout = kThird;
  part.dropout.first_head = 2;
  part.dropout.first_sequence = 1;
  const Bridge shard(part, DType::f32);
  const Block<float> is = all_weights<float>(shard);
  for (std::size_t i = 0; i < 20; ++i) {
    for (std::size_t h = 0; h < 2; ++h) {
      for (std::size_t j = 0; j < 30; ++j) {
        ASSERT_EQ(is.factors[(i * 2 + h) * 30 + j], wanted.factors[((20 + i) * 4 + 2 + h) * 30 + j]) << i << ", " << h << ", " << j;
      }
    }
  }
}

// ---- Chance ----

/// 1 where dropped: (B, Tq, H, Tk).
std::vector<double> dropped_of(const ref::Shape& shape, const ref::Dropout& dropout) {
  ref::Problem p = random_problem(shape, 25);
  p.dropout = dropout;
  const Bridge bridge(p, DType::f32);
  std::vector<double> dropped;
  for (const float x : all_weights<float>(bridge).factors) dropped.push_back(x == 0 ? 1 : 0);
  return dropped;
}

constexpr ref::Shape kMany{.batch = 2, .queries = 200, .keys = 300, .heads = 4, .key_heads = 4, .width = 2, .value_width = 2};

TEST(attention_dropout, as_many_are_dropped_as_was_asked_for) {
  for (const double probability : {1e-3, 0.1, 0.5, 0.9, 0.999}) {
    for (const std::uint64_t seed : {0, 1, 2}) {
      const std::vector<double> dropped = dropped_of(kMany, {.probability = probability, .seed = seed});
      double count = 0;
      for (const double x : dropped) count += x;
      const auto n = static_cast<double>(dropped.size());
      EXPECT_LE(std::fabs(count - n * probability), 5 * std::sqrt(n * probability * (1 - probability))) << probability << ", seed " << seed;
    }
  }
}

/// Of pairs `step` apart: in deviations.
double correlation(const std::vector<double>& x, const std::vector<double>& y, double probability, std::size_t step) {
  double sum = 0;
  const std::size_t n = x.size() - step;
  for (std::size_t i = 0; i < n; ++i) sum += (x[i] - probability) * (y[i + step] - probability);
  return sum / (probability * (1 - probability) * std::sqrt(static_cast<double>(n)));
}

TEST(attention_dropout, neighbours_know_nothing_of_each_other) {
  const ref::Dropout dropout{.probability = 0.4, .seed = 9};
  const std::vector<double> dropped = dropped_of(kMany, dropout);
  const std::size_t keys = 300;
  for (const std::size_t step :
       {std::size_t{1}, std::size_t{2}, std::size_t{3}, std::size_t{4}, std::size_t{64}, keys, 4 * keys, 4 * keys + 1, 200 * 4 * keys}) {
    EXPECT_LE(std::fabs(correlation(dropped, dropped, 0.4, step)), 5) << step;
  }
  ref::Dropout other = dropout;
  other.seed = 10;
  EXPECT_LE(std::fabs(correlation(dropped, dropped_of(kMany, other), 0.4, 0)), 5) << "seeds";
  other = dropout;
  other.offset = 1;
  EXPECT_LE(std::fabs(correlation(dropped, dropped_of(kMany, other), 0.4, 0)), 5) << "offsets";
  EXPECT_GT(correlation(dropped, dropped, 0.4, 0), 100);
}

// ---- Refused ----

TEST(attention_dropout, what_is_no_probability_is_refused) {
  Bridge bridge(random_problem({.batch = 1, .queries = 2, .keys = 3, .heads = 1, .key_heads = 1, .width = 4, .value_width = 4}, 26),
                DType::f32);
  const auto refused = [&](const Dropout& dropout) {
    bridge.spec.dropout = dropout;
    return failure_of(bridge);
  };
  for (const auto& [value, name] : {std::pair{1.0, "1"}, {-0.25, "-0.25"}, {1.5, "1.5"}}) {
    EXPECT_EQ(refused({.probability = value}),
              std::string("attention: dropout.probability is ") + name + ", wanted 0 or above, and below 1");
  }
  for (const double value : {NAN, INFINITY, -INFINITY}) {
    EXPECT_NE(refused({.probability = value}).find("dropout.probability is"), std::string::npos);
  }
  EXPECT_EQ(refused({.first_head = -1}), "attention: dropout.first_head is -1 for 1 of them, wanted numbers from 0 to 2^32 - 1");
  EXPECT_EQ(refused({.first_sequence = std::int64_t{1} << 32}),
            "attention: dropout.first_sequence is 4294967296 for 1 of them, wanted numbers from 0 to 2^32 - 1");
  EXPECT_EQ(refused({.probability = 0.5, .first_head = (std::int64_t{1} << 32) - 1}), "no failure");
  bridge.spec.dropout = {.probability = 2};
  EXPECT_FALSE(bridge.backward(ref::Values(8)).ok());
}

TEST(attention_dropout, is_explained) {
  Bridge bridge(random_problem({.batch = 1, .queries = 2, .keys = 3, .heads = 1, .key_heads = 1, .width = 4, .value_width = 4}, 26),
                DType::f32);
  const auto words = [&] { return explain_attention(bridge.inputs, bridge.spec)->words; };
  EXPECT_EQ(words().find("dropout"), std::string::npos);
  bridge.spec.dropout.probability = 0.25;
  EXPECT_NE(words().find("dropout: weights are dropped with probability 0.25"), std::string::npos) << words();
}

TEST(attention_dropout, tiles_are_not_skipped_beside_it) {
  Bridge bridge(random_problem({.batch = 1, .queries = 2, .keys = 3, .heads = 1, .key_heads = 1, .width = 4, .value_width = 4}, 27),
                DType::f32);
  bridge.spec.terms = {BiasTerm{*Bias::make(Alibi{.heads = 1})}};
  bridge.spec.visibility.mask = Mask::causal;
  bridge.spec.skip = TileSkip::certified;
  EXPECT_EQ(failure_of(bridge), "no failure");
  bridge.spec.dropout.probability = 0.5;
  EXPECT_EQ(failure_of(bridge), "attention: skip is certified and dropout.probability is 0.5, wanted 0");
}

}  // namespace
}  // namespace phasor::test
