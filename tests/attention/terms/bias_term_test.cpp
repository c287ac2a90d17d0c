// SPDX-License-Identifier: Apache-2.0
// Biases by distance through attention: every scheme under every mask against the reference, and what must be equal to what.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "attention/support/table_problems.hpp"
#include "bias_specs.hpp"

namespace phasor::test {
namespace {

ref::Problem problem_of(std::int64_t queries, std::int64_t keys, std::uint64_t seed, std::int64_t heads = 2) {
  return random_problem({.batch = 2, .queries = queries, .keys = keys, .heads = heads, .key_heads = 1, .width = 5, .value_width = 3}, seed);
}

std::vector<NamedScheme> bias_schemes(const ref::Shape& s, Numbers& random) {
  std::vector<NamedScheme> all = diagonal_schemes(s, random);
  all.push_back({"wavlm", ref::WavLm{random_t5(s, random, true), random.values(s.batch * s.queries * s.heads)}});
  const ref::Fire fire{.widths = {1, 8, s.heads},
                       .mlp = random.values(16 + s.heads * 9, -0.4, 1),
                       .c = 0.3,
                       .length = 60.5,
                       .epsilon = 0.01};  // rows on both sides of the length, straight segments
  all.push_back({"fire_segments", fire});
  return all;
}

TEST(bias_term, every_scheme_under_every_mask_is_the_reference) {
  for (MaskedProblem& masked : masked_problems()) {
    Numbers random(31);
    for (const NamedScheme& named : bias_schemes(masked.problem.shape, random)) {
      const bool slow = named.name == "fire_relu" || named.name == "fire_silu";  // perceptrons of the reference, score by score
      if (slow && masked.name != "causal" && masked.name != "shuffled" && masked.name != "varlen") continue;
      masked.problem.schemes = {named.scheme};
      const std::string name = named.name + ", " + masked.name;
      expect_as_reference(masked.problem, DType::f64, name + ", f64");
      if (masked.name != "causal" && masked.name != "shuffled" && masked.name != "varlen") continue;  // float32 takes the same ways
      // A bias of 1000 leaves float32 14 bits of a score: only here, where positions begin at 1000, and only this form is so large.
      if (named.name == "alibi_key_position" && masked.name == "shuffled") continue;
      expect_as_reference(masked.problem, DType::f32, name + ", f32");
    }
  }
}

TEST(bias_term, several_at_once_beside_a_prefix) {
  ref::Problem p = problem_of(100, 130, 5);
  Numbers random(7);
  p.visibility.causal = true;
  p.visibility.prefix = {20, 90};
  for (const NamedScheme& named : bias_schemes(p.shape, random)) {
    // All of them would make scores of some hundreds, of which float32 has not the digits.
    const bool small = named.name == "t5" || named.name == "sandwich" || named.name == "learned_diagonal" || named.name == "wavlm" ||
                       named.name == "fire_segments" || named.name == "kerple_log";
    if (small) p.schemes.push_back(named.scheme);
  }
  ASSERT_EQ(p.schemes.size(), 6U);
  expect_as_reference(p, "six");
}

TEST(bias_term, positions_2_to_the_40_apart) {
  ref::Problem p = problem_of(70, 150, 9);
  const std::int64_t far = std::int64_t{1} << 40;
  for (std::int64_t b = 0; b < 2; ++b) {
    for (std::int64_t j = 0; j < 150; ++j) p.key_positions.push_back(j < 60 ? j : far + j);
    for (std::int64_t i = 0; i < 70; ++i) p.query_positions.push_back(i < 35 ? 40 + i : far + 40 + i);
  }
  p.visibility.left = 1000;  // what far keys would weigh depends on the last bits of huge numbers
  Numbers random(11);
  for (const NamedScheme& named : bias_schemes(p.shape, random)) {
    if (named.name == "sandwich" || named.name == "alibi_key_position" || named.name == "kerple_power") continue;  // sums of such numbers
    p.schemes = {named.scheme};
    expect_as_reference(p, named.name);
  }
}

// ---- Equalities ----

struct Results {
  ref::Output output;
  ref::Gradients gradients;
};
Results run(Bridge& bridge) {
  const Status forward = bridge.forward();
  EXPECT_TRUE(forward.ok()) << forward.message();
  Numbers random(3);
  ref::Values above = random.values(static_cast<std::int64_t>(bridge.output().out.size()));
  const Status backward = bridge.backward(above);
  EXPECT_TRUE(backward.ok()) << backward.message();
  return {bridge.output(), bridge.reference_gradients()};
}
Results run(const ref::Problem& p, DType dtype) {
  Bridge bridge(p, dtype);
  return run(bridge);
}
void expect_equal(const Results& a, const Results& b) {
  EXPECT_EQ(a.output.out, b.output.out);
  EXPECT_EQ(a.output.lse, b.output.lse);
  EXPECT_EQ(a.gradients.q, b.gradients.q);
  EXPECT_EQ(a.gradients.k, b.gradients.k);
  EXPECT_EQ(a.gradients.v, b.gradients.v);
}
void expect_close(const Results& a, const Results& b, DType dtype, const std::string& name) {
  expect_near(a.output.out, b.output.out, dtype, name + ", out");
  expect_near(a.gradients.q, b.gradients.q, dtype, name + ", dq");
  expect_near(a.gradients.k, b.gradients.k, dtype, name + ", dk");
  expect_near(a.gradients.v, b.gradients.v, dtype, name + ", dv");
}

TEST(bias_term, a_table_of_zeros_is_bitwise_no_bias) {
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16}) {
    ref::Problem p = problem_of(150, 220, 13);
    const Results plain = run(p, dtype);
    p.schemes = {ref::T5{.table = ref::Values(2 * 32, 0)}};
    expect_equal(run(p, dtype), plain);
    p.schemes = {ref::LearnedDiagonal{.left = 200, .right = 100, .table = ref::Values(2 * 301, 0)}};
    expect_equal(run(p, dtype), plain);
    p.schemes = {ref::Alibi{{0, 0}}};
    expect_equal(run(p, dtype), plain);
  }
}

TEST(bias_term, a_constant_table_is_no_bias) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    ref::Problem p = problem_of(150, 220, 17);
    const Results plain = run(p, dtype);
    p.schemes = {ref::T5{.table = ref::Values(2 * 32, 1.25)}};
    const Results constant = run(p, dtype);
    expect_close(constant, plain, dtype, "constant");
    for (std::size_t n = 0; n < plain.output.lse.size(); ++n) {
      ASSERT_NEAR(constant.output.lse[n], plain.output.lse[n] + 1.25, table_tolerance(dtype) * 8);
    }
  }
}

TEST(bias_term, a_gate_of_one_is_no_gate) {
  ref::Problem p = problem_of(130, 140, 19);
  Numbers random(5);
  const ref::T5 t5 = random_t5(p.shape, random, true);
  for (const DType dtype : {DType::f32, DType::f64}) {
    p.schemes = {t5};
    const Results bare = run(p, dtype);
    p.schemes = {ref::WavLm{t5, ref::Values(2 * 130 * 2, 1)}};
    const Results gated = run(p, dtype);
    expect_equal(gated, bare);
    const auto& table = std::get<ref::T5>(bare.gradients.schemes[0]).table;
    expect_near(std::get<ref::WavLm>(gated.gradients.schemes[0]).bias.table, table, dtype, "d table");
  }
}

TEST(bias_term, a_table_of_alibi_values_is_alibi) {
  ref::Problem p = problem_of(140, 200, 23);
  const ref::Values slopes = {0.25, 0.0625};  // their products with distances have no rounding
  ref::LearnedDiagonal values{.left = 230, .right = 230};
  for (const double slope : slopes) {
    for (std::int64_t offset = -230; offset <= 230; ++offset) values.table.push_back(-slope * static_cast<double>(std::abs(offset)));
  }
  for (const DType dtype : {DType::f32, DType::f64}) {
    p.schemes = {ref::Alibi{slopes}};
    const Results line = run(p, dtype);
    p.schemes = {values};
    expect_close(line, run(p, dtype), dtype, "alibi");
  }
}

TEST(bias_term, folding_what_is_far_changes_nothing) {
  for (const std::int64_t clip : {0, 10, 63, 64, 100}) {
    ref::Problem p = problem_of(200, 330, static_cast<std::uint64_t>(clip));
    Numbers random(29);
    ref::LearnedDiagonal narrow{.left = clip, .right = clip, .table = random.values(2 * (2 * clip + 1))};
    ref::LearnedDiagonal wide{.left = 400, .right = 400};
    for (std::int64_t h = 0; h < 2; ++h) {
      for (std::int64_t offset = -400; offset <= 400; ++offset) {
        const std::int64_t row = std::clamp(offset, -clip, clip) + clip;
        wide.table.push_back(narrow.table[static_cast<std::size_t>(h * (2 * clip + 1) + row)]);
      }
    }
    for (const DType dtype : {DType::f32, DType::f64}) {
      p.schemes = {narrow};
      const Results folded = run(p, dtype);
      p.schemes = {wide};
      expect_equal(run(p, dtype), folded);
    }
  }
}

TEST(bias_term, positions_that_are_shifted_together_change_nothing) {
  ref::Problem p = problem_of(100, 140, 31);
  Numbers random(37);
  for (const NamedScheme& named : bias_schemes(p.shape, random)) {
    if (named.name.starts_with("fire") || named.name == "alibi_key_position") continue;  // those know where they are
    p.schemes = {named.scheme};
    p.query_positions.clear(), p.key_positions.clear();
    const Results there = run(p, DType::f32);
    for (std::int64_t n = 0; n < 200; ++n) p.query_positions.push_back(n % 100 + 40 + 123456789);
    for (std::int64_t n = 0; n < 280; ++n) p.key_positions.push_back(n % 140 + 123456789);
    expect_equal(run(p, DType::f32), there);
  }
}

TEST(bias_term, keys_that_move_with_their_positions_change_nothing) {
  ref::Problem p = problem_of(100, 140, 41);
  ref::Problem moved = p;
  const ref::Integers order = shuffled(140);
  for (std::int64_t b = 0; b < 2; ++b) {
    for (std::int64_t j = 0; j < 140; ++j) {
      const std::int64_t from = order[static_cast<std::size_t>(j)];
      moved.key_positions.push_back(from);
      std::copy_n(p.k.begin() + (b * 140 + from) * 5, 5, moved.k.begin() + (b * 140 + j) * 5);
      std::copy_n(p.v.begin() + (b * 140 + from) * 3, 3, moved.v.begin() + (b * 140 + j) * 3);
    }
  }
  Numbers random(43);
  for (const NamedScheme& named : bias_schemes(p.shape, random)) {
    p.schemes = moved.schemes = {named.scheme};
    const Results there = run(p, DType::f64);
    const Results here = run(moved, DType::f64);
    expect_near(here.output.out, there.output.out, DType::f64, named.name + ", out");
    expect_near(here.gradients.q, there.gradients.q, DType::f64, named.name + ", dq");
  }
}

TEST(bias_term, a_part_of_the_heads_has_their_biases) {
  const ref::Problem p = problem_of(100, 120, 47, 6);
  ref::Problem part = p;
  part.shape.heads = 2;
  part.q.clear();
  for (std::int64_t row = 0; row < 2 * 100; ++row) {
    part.q.insert(part.q.end(), p.q.begin() + (row * 6 + 3) * 5, p.q.begin() + (row * 6 + 5) * 5);
  }
  for (const NamedBias& named : every_bias()) {
    if (has_window(named.spec)) continue;
    const Result<Bias> bias = Bias::make(named.spec);
    ASSERT_TRUE(bias.ok());
    if (bias->heads() != 6) continue;
    Bridge whole(p, DType::f64);
    whole.spec.terms = {BiasTerm{*bias}};
    whole.gradients.terms.clear();
    const Results all = run(whole);
    Bridge some(part, DType::f64);
    some.spec.terms = {BiasTerm{*bias, 3}};
    some.gradients.terms.clear();
    const Results two = run(some);
    for (std::int64_t row = 0; row < 2 * 100; ++row) {
      for (std::int64_t c = 0; c < 2 * 3; ++c) {
        ASSERT_EQ(two.output.out[static_cast<std::size_t>(row * 6 + c)], all.output.out[static_cast<std::size_t>((row * 6 + 3) * 3 + c)]);
      }
    }
  }
}

// ---- Schemes that the reference has only as a dense bias ----

TEST(bias_term, every_bias_is_its_dense_block) {
  for (const NamedBias& named : every_bias()) {
    SCOPED_TRACE(named.name);
    const Result<Bias> bias = Bias::make(named.spec);
    ASSERT_TRUE(bias.ok());
    ref::Problem p = problem_of(12, 12, 53, bias->heads());
    const ref::Integers places = has_window(named.spec) ? ref::Integers{0, 1, 2, 3, 7, 8, 9, 10, 14, 15, 16, 17} : shuffled(12, 3);
    p.query_positions = p.key_positions = repeated(places, 2);
    ref::Dense dense{.extents = {1, bias->heads(), 12, 12}, .bias = ref::Values(static_cast<std::size_t>(bias->heads() * 144))};
    const Positions at = positions(places.data(), 12);
    ASSERT_TRUE(bias->fill(view(dense.bias.data(), {1, bias->heads(), 12, 12}), at, at).ok());
    ref::Problem reference = p;
    reference.schemes = {dense};
    for (const DType dtype : {DType::f32, DType::f64}) {
      Bridge bridge(p, dtype);
      std::vector<double> parameters(static_cast<std::size_t>(bias->parameter_count()), 0);
      bridge.spec.terms = {BiasTerm{*bias}};
      bridge.gradients.terms = {{.parameters = list_view(parameters)}};
      reference.q = bridge.problem.q, reference.k = bridge.problem.k, reference.v = bridge.problem.v;
      const Results is = run(bridge);
      Numbers random(3);
      ref::Values above = random.values(static_cast<std::int64_t>(is.output.out.size()));
      round_all(above, dtype);
      const ref::Output wanted = ref::forward(reference);
      const ref::Gradients gradients = ref::backward(reference, above);
      expect_near(is.output.out, wanted.out, dtype, "out");
      expect_near(is.output.lse, wanted.lse, dtype, "lse");
      expect_near(is.gradients.q, gradients.q, dtype, "dq");
      std::vector<double> chained(parameters.size(), 0);
      const ref::Values& by_dense = std::get<ref::Dense>(gradients.schemes[0]).bias;
      const bool by_key = named.name == "alibi_key_position";
      for (std::int64_t n = 0; n < bias->heads() * 144; ++n) {
        const std::int64_t query = places[static_cast<std::size_t>(n / 12 % 12)];
        const std::int64_t key = places[static_cast<std::size_t>(n % 12)];
        const BiasPart part{n / 144, query};
        ASSERT_TRUE(
            bias->gradient(chained, view(&by_dense[static_cast<std::size_t>(n)], {1, 1, 1, 1}), (by_key ? 0 : query) - key, part).ok());
      }
      expect_near(parameters, chained, dtype, "parameters");
    }
  }
}

// ---- Certified skipping ----

/// Causal ALiBi with slopes that end long before the first keys.
ref::Problem skipping(std::int64_t n) {
  ref::Problem p = problem_of(n, n, 59);
  p.visibility.causal = true;
  p.schemes = {ref::Alibi{{0.5, 0.25}, ref::AlibiForm::causal}};
  return p;
}

TEST(bias_term, a_certified_skip_does_not_change_float32) {
  const ref::Problem p = skipping(1000);
  const Results all = run(p, DType::f32);
  Bridge bridge(p, DType::f32);
  bridge.spec.skip = TileSkip::certified;
  ASSERT_TRUE(bridge.forward().ok());
  EXPECT_LE(apart(bridge.output().out, all.output.out), 0x1p-23);
  EXPECT_LE(apart(bridge.output().lse, all.output.lse), 0x1p-20);
}

TEST(bias_term, a_certified_skip_does_not_visit_what_it_leaves_out) {
  ref::Problem p = skipping(1000);
  const std::size_t first_tile = 64 * 3;
  for (std::size_t n = 0; n < first_tile; ++n) p.v[n] = std::numeric_limits<double>::infinity();
  Bridge bridge(p, DType::f32);
  bridge.spec.skip = TileSkip::certified;
  ASSERT_TRUE(bridge.forward().ok());
  const ref::Values out = bridge.output().out;
  for (std::size_t row = 900; row < 1000; ++row) {
    for (std::size_t c = 0; c < 6; ++c) ASSERT_TRUE(std::isfinite(out[row * 6 + c])) << row;
  }
}

TEST(bias_term, large_keys_far_away_are_not_skipped) {
  ref::Problem p = skipping(1000);
  for (std::size_t c = 0; c < 5; ++c) p.k[40 * 5 + c] *= 2000;  // key 40 outweighs its distance
  Bridge bridge(p, DType::f32);
  bridge.spec.skip = TileSkip::certified;
  ASSERT_TRUE(bridge.forward().ok());
  expect_near(bridge.output().out, ref::forward(bridge.problem).out, DType::f32, "out");
}

// ---- What is refused ----

Status refusal(const BiasTerm& term, const TermGradient& gradient = {}) {
  Bridge bridge(problem_of(10, 12, 61), DType::f32);
  bridge.spec.terms = {term};
  bridge.gradients.terms = {gradient};
  return attention_backward_workspace(bridge.inputs, bridge.spec, bridge.gradients).status();
}

TEST(bias_term, what_does_not_fit_is_refused_with_words) {
  const Bias six = *Bias::make(Alibi{.heads = 6});
  EXPECT_EQ(refusal({six, 5}).message(), "attention_backward: terms[0]: 2 heads from 5 on are wanted, the bias has 6");
  EXPECT_EQ(refusal({six, -1}).message(), "attention_backward: terms[0]: 2 heads from -1 on are wanted, the bias has 6");
  const std::vector<float> gate(40, 1);
  EXPECT_EQ(refusal({six, 0, view(gate.data(), {2, 10, 3, 1}, {10, 1, 0, 1})}).message(),
            "attention_backward: terms[0]: gate has 3 on its third axis, wanted 2 or 1");
  const Bias swin = *Bias::make(SwinTable{.heads = 2, .window = {3, 4}});
  EXPECT_EQ(refusal({swin}).message(), "attention_backward: terms[0]: a window wants query_positions, those of fill_window");
  EXPECT_TRUE(refusal({six}).ok());
}

TEST(bias_term, a_position_before_a_window_is_refused_where_tokens_have_it_anyway) {
  Bridge bridge(problem_of(4, 2, 61), DType::f32);
  bridge.spec.terms = {BiasTerm{*Bias::make(SwinTable{.heads = 2, .window = {1, 4}})}};
  bridge.spec.query_positions = positions_from(-2);  // as many keys, less as many queries: what is not given
  bridge.spec.key_positions = positions_from(0);
  EXPECT_EQ(bridge.forward().message(),
            "attention: terms[0]: position -2 of token 0 is no place of a window of 1 x 4, wanted those of fill_window");
}

}  // namespace
}  // namespace phasor::test
