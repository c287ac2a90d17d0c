// SPDX-License-Identifier: Apache-2.0
// The backward of CUDA's general kernels, run on the host, against the double reference: several terms at once, sequences, positions,
// sinks, dropout, 16 bits, several CoPEs, wide perceptrons; and what must not matter.
#include <gtest/gtest.h>

#include <string>

#include "attention/general/hidden_keys.hpp"
#include "attention/general/machine.hpp"
#include "attention/support/held.hpp"
#include "cuda/bias/work.hpp"

namespace phasor::test {
namespace {

constexpr ref::Shape kShape{.batch = 2, .queries = 70, .keys = 101, .heads = 4, .key_heads = 2, .width = 10, .value_width = 7};
constexpr ref::Dropout kThird = {.probability = 0.3, .seed = 0x1234567890abcdef, .offset = 0x500000003};

/// Tables on every side, rows that batch rows have for themselves, biases with and without a gate, dense ones that heads, batch rows or
/// queries share, features of their own.
std::vector<ref::Scheme> table_terms(const ref::Shape& s) {
  Numbers random(4);
  return {ref::Rope{{.rotary_width = 4, .base = 50}},
          random_t5(s, random, true),
          ref::WavLm{random_t5(s, random, false), random.values(s.batch * s.queries * s.heads)},
          ref::Dense{.extents = {1, 1, s.queries, s.keys}, .bias = random.values(s.queries * s.keys)},
          ref::Shaw{.left = 20, .right = 9, .keys = random.values(30 * s.width), .values = random.values(30 * s.value_width)},
          random_deberta(s, random, 4, ref::DebertaReading::hf),
          ref::Inkling{.extent = 40,
                       .feature_width = 3,
                       .features = random.values(s.batch * s.queries * s.heads * 3),
                       .table = random.values(120),
                       .alpha = 0.4,
                       .floor = 2}};
}
/// The rest, without a table of values.
std::vector<ref::Scheme> other_terms(const ref::Shape& s) {
  Numbers random(5);
  return {ref::Alibi{random.values(s.heads, 0.01, 0.1)}, ref::LearnedDiagonal{.left = 30, .right = 4, .table = random.values(s.heads * 35)},
          ref::Dense{.extents = {1, s.heads, 1, s.keys}, .bias = random.values(s.heads * s.keys)},
          ref::Dense{.extents = {s.batch, 1, s.queries, 1}, .bias = random.values(s.batch * s.queries)}, random_xlnet(s, random)};
}

ref::Problem problem_of(const std::vector<ref::Scheme>& schemes) {
  ref::Problem p = random_problem(kShape, 5);
  p.schemes = schemes;
  return p;
}
ref::Integers scattered(std::int64_t count, std::int64_t step) {
  ref::Integers all;
  for (std::int64_t n = 0; n < count; ++n) all.push_back(n * step % 97 - 20);
  return all;
}

TEST(CudaAttentionBackwardOnHost, many_terms_are_the_reference) {
  const ReplacedBackend general = general_attention();
  for (const bool tables : {true, false}) {
    ref::Problem p = problem_of(tables ? table_terms(kShape) : other_terms(kShape));
    p.softcap = 6;
    p.visibility = every_mask(kShape)[7].visibility;
    expect_as_reference(p, tables ? "tables" : "others");
  }
}

TEST(CudaAttentionBackwardOnHost, sinks_and_dropout_in_every_dtype) {
  const ReplacedBackend general = general_attention();
  ref::Problem p = problem_of({ref::Rope{{.rotary_width = 4, .base = 50}}});
  p.sinks = Numbers(9).values(kShape.heads, -2, 4);
  p.dropout = kThird;
  p.visibility = {.causal = true, .left = 30};
  for (const DType dtype : {DType::f64, DType::f32, DType::f16, DType::bf16}) expect_as_reference(p, dtype, "sinks and dropout");
  p.sinks = {0.3};
  expect_as_reference(p, DType::f64, "a shared sink");
}

TEST(CudaAttentionBackwardOnHost, sequences_of_a_varlen_batch) {
  const ReplacedBackend general = general_attention();
  const ref::Shape ragged{.batch = 1, .queries = 130, .keys = 160, .heads = 4, .key_heads = 2, .width = 12, .value_width = 5};
  ref::Problem p = random_problem(ragged, 7);
  p.schemes = table_terms(ragged);
  p.visibility = {.query_starts = {0, 50, 50, 80, 130}, .key_starts = {0, 70, 90, 90, 160}};
  expect_as_reference(p, "varlen");
  p.schemes = {ref::Dense{.extents = {1, 1, 1, 160}, .bias = Numbers(3).values(160)}, ref::Alibi{Numbers(4).values(4, 0.01, 0.1)}};
  expect_as_reference(p, "varlen, a shared bias");
}

/// Positions in any order: tables by rows, slopes and perceptrons score by score.
TEST(CudaAttentionBackwardOnHost, positions_that_are_given) {
  const ReplacedBackend general = general_attention();
  const ref::Shape shape{.batch = 2, .queries = 35, .keys = 41, .heads = 4, .key_heads = 2, .width = 4, .value_width = 3};
  for (const NamedScheme& one : every_scheme(shape, 1)) {
    const bool counts = std::holds_alternative<ref::Cope>(one.scheme);
    if (std::holds_alternative<ref::Xpos>(one.scheme) && std::get<ref::Xpos>(one.scheme).keys_rotated) continue;  // the library has none
    ref::Problem p = random_problem(shape, 2);
    p.schemes = {one.scheme};
    p.visibility.causal = one.causal_only || counts;
    for (std::int64_t n = 0; n < shape.batch * shape.queries; ++n) p.query_positions.push_back(counts ? n * 5 % 40 : n * 5 % 8);
    for (std::int64_t n = 0; n < shape.batch * shape.keys; ++n) p.key_positions.push_back(counts ? n % shape.keys : n * 3 % 8);
    expect_as_reference(p, DType::f64, one.name);
  }
  ref::Problem far = problem_of(table_terms(kShape));
  far.query_positions = scattered(kShape.batch * kShape.queries, 37);
  far.key_positions = scattered(kShape.batch * kShape.keys, 53);
  far.visibility.left = 60;
  expect_as_reference(far, "far apart");
}

/// Queries, keys and values of memory that nobody sees.
TEST(CudaAttentionBackwardOnHost, what_nobody_sees_takes_no_part) {
  const ReplacedBackend general = general_attention();
  ref::Problem p = problem_of(table_terms(kShape));
  hide_keys_of_nan(p, 40);
  expect_finite_gradients(p, DType::f32);
  for (const bool padded : {false, true}) {
    const ref::Shape shape = shape_of_hidden_queries(kShape, padded);
    p = random_problem(shape, 3);
    p.schemes = table_terms(shape);
    hide_queries_of_nan(p, padded);
    expect_finite_gradients(p, DType::f32, kHiddenQueries);
    p.sinks = Numbers(9).values(shape.heads, -2, 4);
    for (const bool with_lse : {false, true}) expect_finite_gradients(p, DType::f32, kHiddenQueries, with_lse);
  }
}

TEST(CudaAttentionBackwardOnHost, the_order_of_blocks_does_not_change_a_bit) {
  const ReplacedBackend general = general_attention();
  for (const bool tables : {true, false}) {
    const ref::Problem p = problem_of(tables ? table_terms(kShape) : other_terms(kShape));
    std::vector<ref::Values> before;
    for (const bool first : {true, false}) {
      first_blocks_first = first;
      Bridge bridge(p, DType::f32);
      ASSERT_TRUE(bridge.forward().ok());
      ASSERT_TRUE(bridge.backward(Numbers(3).values(kShape.batch * kShape.queries * kShape.heads * kShape.value_width)).ok());
      ref::Gradients is = bridge.reference_gradients();
      std::vector<ref::Values> all = {is.q, is.k, is.v};
      for (ref::Scheme& scheme : is.schemes) {
        for (const ref::Parameter& one : parameters_of(scheme)) all.emplace_back(one.values.begin(), one.values.end());
      }
      if (first) before = all;
      EXPECT_EQ(all, before);
    }
    first_blocks_first = false;
  }
}

// ---- Several CoPEs, each with counts of its own ----

constexpr ref::Shape kCounted{.batch = 2, .queries = 39, .keys = 70, .heads = 2, .key_heads = 1, .width = 5, .value_width = 3};

ref::Cope cope(const ref::Shape& s, std::int64_t rows, double gate_scale, bool per_head) {
  Numbers random(static_cast<std::uint64_t>(rows));
  return {.rows = rows,
          .per_head = per_head,
          .table = random.values(rows * s.width * (per_head ? s.heads : 1)),
          .gate_scale = gate_scale,
          .term_scale = 0.6};
}
/// Those that saturate at once, after some tiles, and never.
ref::Problem counted_problem(const ref::Shape& s) {
  ref::Problem p = random_problem(s, 3);
  p.visibility.causal = true;
  p.schemes = {cope(s, 2, 1.3, true), cope(s, 20, -0.7, false), cope(s, 90, 0.4, true)};
  return p;
}

TEST(SeveralCopesOnHost, count_for_themselves) {
  const ReplacedBackend general = general_attention();
  expect_as_reference(counted_problem(kCounted), "three");
  ref::Problem p = counted_problem(kCounted);
  p.visibility.left = 20;
  p.softcap = 3;
  expect_as_reference(p, "window and soft cap");
  p = counted_problem(kCounted);
  p.visibility.prefix = {50, 0};
  p.visibility.key_mask.assign(2 * 70, 1);
  for (std::size_t j = 0; j < 140; j += 3) p.visibility.key_mask[j] = 0;
  expect_as_reference(p, "prefix and padding");
}

TEST(SeveralCopesOnHost, count_in_each_sequence) {
  ref::Shape s = kCounted;
  s.batch = 1;
  ref::Problem p = counted_problem(s);
  p.visibility.query_starts = {0, 3, 3, 36, 39};
  p.visibility.key_starts = {0, 1, 5, 45, 70};
  const ReplacedBackend general = general_attention();
  expect_as_reference(p, "varlen");
}

// ---- Perceptrons of which a block has no room for one distance ----

TEST(WidePerceptronOnHost, has_its_gradients_score_by_score) {
  constexpr std::int64_t kHidden = 4200;
  constexpr ref::Shape kFew{.batch = 2, .queries = 5, .keys = 7, .heads = 2, .key_heads = 1, .width = 4, .value_width = 3};
  Numbers random(4);
  std::vector<std::int64_t> widths = {1, kHidden, kFew.heads};
  plan::MlpSource mlp;
  mlp.widths = widths.data();
  mlp.width_count = 3;
  ASSERT_EQ(cuda::distances_together(cuda::backward_size(mlp, kFew.heads)), 0);
  ref::Problem p = random_problem(kFew, 3);
  p.visibility.causal = true;
  ref::Fire fire;
  fire.widths = {1, kHidden, kFew.heads};
  fire.mlp = random.values(2 * kHidden + (kHidden + 1) * kFew.heads, -0.02, 0.02);
  fire.c = 0.3;
  fire.length = 3.7;
  p.schemes = {fire};
  const ReplacedBackend general = general_attention();
  expect_as_reference(p, DType::f64, "beyond its length");
  std::get<ref::Fire>(p.schemes[0]).length = 64;  // one value per distance would be all there is
  expect_as_reference(p, DType::f64, "within its length");
  expect_as_reference(p, DType::f32, "within its length, in float32");
}

}  // namespace
}  // namespace phasor::test
