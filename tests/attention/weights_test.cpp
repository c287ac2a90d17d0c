// SPDX-License-Identifier: Apache-2.0
// Weights of blocks of rows against the reference's: every scheme, mask and kind of positions, on every target; a block is the rows of the
// whole; what it does not need it does not look at, what does not fit it refuses.
#include "attention/weights_call.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "attention/support/every_target.hpp"

namespace phasor::test {
namespace {

/// A weight is a quotient of exponentials and their sum (held.cpp): u (8 (2 + S) + 3 sqrt(n)), relative; those below 2^-64 of a row's
/// largest are 0 in 32 bits.
template <class T>
void expect_weights(const ref::Problem& given, const std::string& name) {
  const Bridge bridge(given, std::is_same_v<T, double> ? DType::f64 : DType::f32);
  const ref::Problem& p = bridge.problem;
  const Block<T> is = all_weights<T>(bridge);
  const ref::Values wanted = ref::weights(p);
  const ref::Magnitudes most = ref::magnitudes(p);
  const double u = std::is_same_v<T, double> ? 0x1p-53 : 0x1p-24;
  const auto keys = static_cast<std::size_t>(p.shape.keys);
  ASSERT_EQ(is.weights.size(), wanted.size()) << name;
  double worst = 0;
  for (std::size_t n = 0; n < wanted.size(); ++n) {
    const auto row = static_cast<std::int64_t>(n / keys);  // (B, Tq, H)
    const std::int64_t token = row / p.shape.heads;
    const std::int64_t head = token / p.shape.queries * p.shape.heads + row % p.shape.heads;
    const double score = most.scores[static_cast<std::size_t>(head * p.shape.queries + token % p.shape.queries)];
    const double allowed = u * (8 * (2 + score) + 3 * std::sqrt(static_cast<double>(keys))) * wanted[n] + 0x1p-64;
    const double part = std::fabs(static_cast<double>(is.weights[n]) - wanted[n]) / allowed;
    if (!(part <= worst)) worst = std::isnan(part) ? INFINITY : part;
    ASSERT_TRUE(wanted[n] != 0 || is.weights[n] == 0) << name << ": " << n << " is not seen";
  }
  EXPECT_LE(worst, 1) << name;
}

void expect_weights(const ref::Problem& p, const std::string& name) {
  expect_weights<double>(p, name + ", f64");
  expect_weights<float>(p, name + ", f32");
}

/// What the library has: xPos wants unrotated keys.
std::vector<NamedScheme> schemes_of_the_library(const ref::Shape& shape) {
  std::vector<NamedScheme> list = every_scheme(shape, 1);
  std::erase_if(list, [](const NamedScheme& one) {
    const auto* xpos = std::get_if<ref::Xpos>(&one.scheme);
    return xpos != nullptr && xpos->keys_rotated;
  });
  return list;
}

TEST(attention_weights, every_scheme) {
  const ref::Shape shape{.batch = 2, .queries = 3, .keys = 6, .heads = 2, .key_heads = 1, .width = 8, .value_width = 5};
  for (const NamedScheme& one : schemes_of_the_library(shape)) {
    for (const double softcap : {0.0, 1.5}) {
      ref::Problem p = random_problem(shape, 2);
      p.schemes = {one.scheme};
      p.visibility.causal = one.causal_only || std::holds_alternative<ref::Cope>(one.scheme);
      p.softcap = softcap;
      expect_weights(p, one.name);
    }
  }
}

TEST(attention_weights, every_shape_and_mask) {
  for (const ref::Shape& shape : edge_shapes()) {
    for (const NamedMask& mask : every_mask(shape)) {
      ref::Problem p = random_problem(shape, 3);
      p.visibility = mask.visibility;
      expect_weights(p, std::to_string(shape.queries) + " x " + std::to_string(shape.keys) + ", " + mask.name);
    }
  }
}

/// Terms that add by the softmax, sliding tables, positions in any order, sequences, on every target.
TEST(attention_weights, several_tiles_on_every_target) {
  for (const std::string_view target : targets()) {
    ASSERT_TRUE(force_target(target).ok());
    for (MaskedProblem& masked : masked_problems()) {
      ref::Problem& p = masked.problem;
      Numbers random(4);
      p.schemes = {random_t5(p.shape, random, true), xl_table(p.shape, 1000)};
      expect_weights<float>(p, masked.name + ", " + std::string(target));
    }
  }
  ASSERT_TRUE(force_target("").ok());
}

TEST(attention_weights, contextual_positions_over_several_tiles) {
  ref::Problem p = random_problem({.batch = 1, .queries = 130, .keys = 150, .heads = 2, .key_heads = 1, .width = 8, .value_width = 2}, 5);
  Numbers random(6);
  p.visibility.causal = true;
  p.schemes = {ref::Cope{.rows = 11, .table = random.values(11 * 8)}};
  expect_weights(p, "CoPE");
}

/// A sink takes its share of every row, also of those that see no key.
TEST(attention_weights, sinks_take_part) {
  ref::Problem p = random_problem({.batch = 2, .queries = 130, .keys = 100, .heads = 4, .key_heads = 2, .width = 8, .value_width = 2}, 9);
  Numbers random(10);
  p.visibility.causal = true;  // the first 30 queries see nothing
  p.schemes = {random_t5(p.shape, random, true)};
  p.sinks = {0.5, -3, 40, -40};
  expect_weights(p, "sinks");
}

ref::Problem some_problem() {
  ref::Problem p = random_problem({.batch = 3, .queries = 200, .keys = 150, .heads = 4, .key_heads = 2, .width = 8, .value_width = 3}, 7);
  Numbers random(8);
  p.visibility.causal = true;
  p.schemes = {random_t5(p.shape, random, true)};
  p.dropout = {.probability = 0.25, .seed = 3};
  return p;
}

TEST(attention_weights, a_block_is_the_rows_of_the_whole) {
  const Bridge bridge(some_problem(), DType::f32);
  const ref::Shape& s = bridge.problem.shape;
  const Block<float> whole = all_weights<float>(bridge);
  const struct {
    AttentionRows first;
    std::int64_t batches, queries, heads;
  } blocks[] = {{{0, 0, 0}, 1, 1, 1}, {{2, 199, 3}, 1, 1, 1}, {{1, 90, 1}, 2, 13, 2}, {{0, 96, 0}, 3, 96, 4}, {{1, 5, 2}, 1, 195, 1}};
  for (const auto& block : blocks) {
    const Block<float> is = weights_of<float>(bridge, block.first, {block.batches, block.queries, block.heads, s.keys});
    std::size_t n = 0;
    for (std::int64_t b = block.first.batch; b < block.first.batch + block.batches; ++b) {
      for (std::int64_t i = block.first.query; i < block.first.query + block.queries; ++i) {
        for (std::int64_t h = block.first.head; h < block.first.head + block.heads; ++h) {
          for (std::int64_t j = 0; j < s.keys; ++j, ++n) {
            const auto at = static_cast<std::size_t>(((b * s.queries + i) * s.heads + h) * s.keys + j);
            ASSERT_EQ(is.weights[n], whole.weights[at]) << b << ", " << i << ", " << h << ", " << j;
            ASSERT_EQ(is.factors[n], whole.factors[at]) << b << ", " << i << ", " << h << ", " << j;
          }
        }
      }
    }
  }
}

TEST(attention_weights, any_strides_and_any_runner) {
  Bridge bridge(some_problem(), DType::f32);
  const ref::Shape& s = bridge.problem.shape;
  const Block<float> whole = all_weights<float>(bridge);
  bridge.spec.execution.runner = backwards_runner();
  std::vector<float> heads_first(whole.weights.size() + 4096, -7);
  TensorView to = view(heads_first.data(), {s.batch, s.queries, s.heads, s.keys});
  to.strides = {s.heads * s.queries * s.keys, s.keys, s.queries * s.keys, 1};
  const Status status = weights_to(bridge, {}, {to});
  ASSERT_TRUE(status.ok()) << status.message();
  for (std::int64_t b = 0; b < s.batch; ++b) {
    for (std::int64_t i = 0; i < s.queries; ++i) {
      for (std::int64_t h = 0; h < s.heads; ++h) {
        for (std::int64_t j = 0; j < s.keys; ++j) {
          ASSERT_EQ(heads_first[static_cast<std::size_t>(((b * s.heads + h) * s.queries + i) * s.keys + j)],
                    whole.weights[static_cast<std::size_t>(((b * s.queries + i) * s.heads + h) * s.keys + j)]);
        }
      }
    }
  }
  for (std::size_t n = whole.weights.size(); n < heads_first.size(); ++n) ASSERT_EQ(heads_first[n], -7);
}

TEST(attention_weights, times_factors_times_values_is_attention) {
  Bridge bridge(some_problem(), DType::f64);
  const ref::Problem& p = bridge.problem;
  const ref::Shape& s = p.shape;
  ASSERT_TRUE(bridge.forward().ok());
  const Block<double> is = all_weights<double>(bridge);
  ref::Values out(static_cast<std::size_t>(s.batch * s.queries * s.heads * s.value_width), 0);
  ref::Cell cell;
  for (cell.b = 0; cell.b < s.batch; ++cell.b) {
    for (cell.i = 0; cell.i < s.queries; ++cell.i) {
      for (cell.h = 0; cell.h < s.heads; ++cell.h) {
        for (cell.j = 0; cell.j < s.keys; ++cell.j) {
          const auto at = static_cast<std::size_t>(((cell.b * s.queries + cell.i) * s.heads + cell.h) * s.keys + cell.j);
          EXPECT_EQ(is.factors[at], ref::dropout_factor(p, cell));
          for (std::int64_t c = 0; c < s.value_width; ++c) {
            out[static_cast<std::size_t>(ref::out_row(p, cell) + c)] +=
                is.weights[at] * is.factors[at] * p.v[static_cast<std::size_t>(ref::value_row(p, cell) + c)];
          }
        }
      }
    }
  }
  EXPECT_LE(far_apart(bridge.output().out, out), 1e-14);
}

TEST(attention_weights, keys_of_other_sequences_have_none) {
  ref::Problem p = random_problem({.batch = 1, .queries = 110, .keys = 120, .heads = 2, .key_heads = 1, .width = 4, .value_width = 3}, 9);
  p.visibility.query_starts = {0, 5, 5, 110};
  p.visibility.key_starts = {0, 7, 10, 120};
  expect_weights(p, "packed");
  const Bridge bridge(p, DType::f32);
  const Block<float> is = all_weights<float>(bridge);
  ref::Cell cell;
  for (cell.i = 0; cell.i < 110; ++cell.i) {
    for (cell.j = 0; cell.j < 120; ++cell.j) {
      EXPECT_EQ(is.factors[static_cast<std::size_t>(cell.i * 2 * 120 + cell.j)], ref::visible(p, cell) ? 1 : 0);  // without dropout
    }
  }
}

TEST(attention_weights, values_and_their_tables_are_not_looked_at) {
  ref::Problem p = random_problem({.batch = 1, .queries = 20, .keys = 30, .heads = 2, .key_heads = 1, .width = 4, .value_width = 3}, 10);
  Numbers random(11);
  p.schemes = {ref::Shaw{.left = 2, .right = 1, .keys = random.values(4 * 4), .values = random.values(4 * 3)}};
  Bridge bridge(p, DType::f32);
  const Block<float> wanted = all_weights<float>(bridge);
  bridge.inputs.v = {};
  EXPECT_EQ(all_weights<float>(bridge).weights, wanted.weights);
  expect_weights(p, "Shaw");
}

TEST(attention_weights, keys_behind_the_mask_may_hold_no_number) {
  ref::Problem p = random_problem({.batch = 2, .queries = 100, .keys = 140, .heads = 2, .key_heads = 2, .width = 4, .value_width = 3}, 12);
  p.visibility.key_mask.assign(2 * 140, 1);
  for (std::size_t n = 3; n < 280; n += 5) p.visibility.key_mask[n] = 0;
  const Bridge sound(p, DType::f32);
  const Bridge spoilt(with_nan_behind_the_mask(p), DType::f32);
  EXPECT_EQ(all_weights<float>(spoilt).weights, all_weights<float>(sound).weights);
}

TEST(attention_weights, of_16_bits_are_f32) {
  ref::Problem p = random_problem({.batch = 1, .queries = 40, .keys = 70, .heads = 2, .key_heads = 1, .width = 32, .value_width = 32}, 13);
  const Bridge bridge(p, DType::bf16);
  const ref::Values wanted = ref::weights(bridge.problem);
  const Block<float> is = all_weights<float>(bridge);
  const ref::Values own(is.weights.begin(), is.weights.end());
  EXPECT_LE(far_apart(own, wanted), 1e-6);
}

TEST(attention_weights, of_nothing) {
  const Bridge no_keys(random_problem({.batch = 1, .queries = 3, .keys = 0, .heads = 1, .key_heads = 1, .width = 4, .value_width = 2}, 14),
                       DType::f32);
  EXPECT_TRUE(weights_to(no_keys, {}, {{nullptr, DType::f32, {1, 3, 1, 0}, {0, 0, 0, 1}}}).ok());
  const Bridge some(random_problem({.batch = 1, .queries = 3, .keys = 2, .heads = 1, .key_heads = 1, .width = 4, .value_width = 2}, 14),
                    DType::f32);
  EXPECT_TRUE(weights_to(some, {.query = 3}, {{nullptr, DType::f32, {1, 0, 1, 2}, {0, 0, 2, 1}}}).ok());
}

TEST(attention_weights, what_does_not_fit_is_refused) {
  const ref::Shape shape{.batch = 2, .queries = 5, .keys = 6, .heads = 3, .key_heads = 1, .width = 4, .value_width = 2};
  const Bridge bridge(random_problem(shape, 15), DType::f32);
  std::vector<float> room(1000, -7);
  const auto refused = [&](const AttentionRows& rows, const Extents& s) {
    return weights_to(bridge, rows, {view(room.data(), s)}).message();
  };
  EXPECT_EQ(refused({.batch = 1}, {2, 5, 3, 6}), "attention_weights: weights has 2 batch rows from 1 on, q has 2, wanted some of those");
  EXPECT_EQ(refused({.query = 3}, {1, 3, 3, 6}), "attention_weights: weights has 3 queries from 3 on, q has 5, wanted some of those");
  EXPECT_EQ(refused({.head = -1}, {1, 1, 1, 6}), "attention_weights: weights has 1 heads from -1 on, q has 3, wanted some of those");
  EXPECT_EQ(refused({}, {1, 1, 1, 5}), "attention_weights: weights has shape (1, 1, 1, 5), wanted (1, 1, 1, 6)");
  std::vector<double> wide(100);
  EXPECT_EQ(weights_to(bridge, {}, {view(wide.data(), {1, 1, 1, 6})}).message(), "attention_weights: weights is f64, wanted f32");
  EXPECT_EQ(weights_to(bridge, {}, {view(room.data(), {1, 1, 1, 6}), view(room.data() + 6, {1, 2, 1, 6})}).message(),
            "attention_weights: factors has shape (1, 2, 1, 6), wanted (1, 1, 1, 6)");
  EXPECT_EQ(weights_to(bridge, {}, {view(room.data(), {1, 1, 1, 6}), view(room.data() + 3, {1, 1, 1, 6})}).message(),
            "attention_weights: factors overlaps weights, wanted memory apart");
  std::byte little[8];
  EXPECT_NE(
      attention_weights(bridge.inputs, bridge.spec, {}, {view(room.data(), {1, 1, 1, 6})}, little).message().find("the workspace has 8"),
      std::string::npos);
  for (const float x : room) ASSERT_EQ(x, -7) << "written by a call that failed";
}

}  // namespace
}  // namespace phasor::test
