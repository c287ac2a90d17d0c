// SPDX-License-Identifier: Apache-2.0
// Masks, positions, grouped heads and the merging of key blocks in the reference of attention.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "attention/support/compare.hpp"
#include "attention/support/finite_differences.hpp"

namespace phasor::test {
namespace {

constexpr ref::Shape kShape{.batch = 2, .queries = 4, .keys = 7, .heads = 2, .key_heads = 1, .width = 4, .value_width = 3};
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

TEST(attention_reference_mask, one_key_gives_its_value_and_its_score) {
  ref::Problem p = random_problem({.batch = 1, .queries = 1, .keys = 1, .heads = 1, .key_heads = 1, .width = 2, .value_width = 2}, 1);
  p.q = {2, 3};
  p.k = {5, 7};
  p.scale = 0.5;
  const ref::Output output = ref::forward(p);
  EXPECT_EQ(output.out, p.v);
  EXPECT_EQ(output.lse, ref::Values{15.5});
}

TEST(attention_reference_mask, equal_scores_give_the_mean) {
  ref::Problem p = random_problem(kShape, 1);
  p.q.assign(p.q.size(), 0);
  const ref::Output output = ref::forward(p);
  double mean = 0;
  for (std::int64_t j = 0; j < 7; ++j) mean += p.v[static_cast<std::size_t>(ref::value_row(p, {.b = 1, .j = j}) + 2)] / 7;
  EXPECT_NEAR(output.out[static_cast<std::size_t>(ref::out_row(p, {.b = 1, .h = 1, .i = 2}) + 2)], mean, kSameTolerance);
  EXPECT_NEAR(output.lse[0], std::log(7), kSameTolerance);
}

/// As strings of 1 and 0, one row per query.
std::string picture(const ref::Problem& p, std::int64_t b = 0) {
  std::string rows;
  for (std::int64_t i = 0; i < p.shape.queries; ++i) {
    for (std::int64_t j = 0; j < p.shape.keys; ++j) rows += ref::visible(p, {.b = b, .i = i, .j = j}) ? '1' : '0';
    rows += ' ';
  }
  return rows;
}

TEST(attention_reference_mask, pictures) {
  ref::Problem p = random_problem(kShape, 1);
  EXPECT_EQ(picture(p), "1111111 1111111 1111111 1111111 ");
  p.visibility = {.causal = true};
  EXPECT_EQ(picture(p), "1111000 1111100 1111110 1111111 ");
  p.visibility = {.left = 2, .right = 1};
  EXPECT_EQ(picture(p), "0111100 0011110 0001111 0000111 ");
  p.visibility = {.causal = true, .prefix = {0, 6}};
  EXPECT_EQ(picture(p), "1111000 1111100 1111110 1111111 ");
  EXPECT_EQ(picture(p, 1), "1111110 1111110 1111110 1111111 ");
  p.visibility = {.causal = true, .left = 2, .prefix = {6, 0}};  // the window stays
  EXPECT_EQ(picture(p), "0111110 0011110 0001110 0000111 ");
  p.visibility = {.causal = true, .key_mask = {1, 1, 1, 1, 1, 1, 1, 0, 0, 1, 0, 1, 1, 1}};
  EXPECT_EQ(picture(p, 1), "0010000 0010100 0010110 0010111 ");
  p.visibility = {.causal = true};
  p.query_positions = {9, 0, 5, 5, 0, 0, 0, 0};
  p.key_positions = {5, 6, 7, 0, 1, 9, 10, 0, 0, 0, 0, 0, 0, 0};
  EXPECT_EQ(picture(p), "1111110 0001000 1001100 1001100 ");
}

TEST(attention_reference_mask, ragged_sequences_see_their_own_keys_from_the_bottom_right) {
  ref::Problem p = random_problem({.batch = 1, .queries = 5, .keys = 7, .heads = 1, .key_heads = 1, .width = 2, .value_width = 2}, 1);
  p.visibility = {.causal = true, .query_starts = {0, 2, 2, 5}, .key_starts = {0, 3, 4, 7}};
  EXPECT_EQ(picture(p), "1100000 1110000 0000100 0000110 0000111 ");
  p.visibility.prefix = {0, 0, 2};
  EXPECT_EQ(picture(p), "1100000 1110000 0000110 0000110 0000111 ");
}

TEST(attention_reference_mask, ragged_sequences_are_calls_of_their_own) {
  const ref::Shape whole{.batch = 1, .queries = 5, .keys = 7, .heads = 2, .key_heads = 1, .width = 4, .value_width = 3};
  for (const NamedScheme& one : every_scheme(whole, 3)) {
    if (one.name.starts_with("dense") || one.name == "wavlm" || one.name == "xlnet" || one.name == "inkling") continue;  // (B, Tq) inputs
    ref::Problem p = random_problem(whole, 4);
    p.schemes = {one.scheme};
    p.visibility = {.causal = true, .query_starts = {0, 2, 5}, .key_starts = {0, 3, 7}};
    const ref::Output both = ref::forward(p);
    for (const auto& [q0, q1, k0, k1] : {std::array<std::int64_t, 4>{0, 2, 0, 3}, {2, 5, 3, 7}}) {
      ref::Problem part = p;
      part.visibility = {.causal = true};
      part.shape.queries = q1 - q0;
      part.shape.keys = k1 - k0;
      part.q = ref::Values(p.q.begin() + q0 * 8, p.q.begin() + q1 * 8);
      part.k = ref::Values(p.k.begin() + k0 * 4, p.k.begin() + k1 * 4);
      part.v = ref::Values(p.v.begin() + k0 * 3, p.v.begin() + k1 * 3);
      EXPECT_EQ(ref::forward(part).out, ref::Values(both.out.begin() + q0 * 6, both.out.begin() + q1 * 6)) << one.name;
    }
  }
}

TEST(attention_reference_mask, queries_that_see_nothing_give_zeros_and_no_gradient) {
  for (const NamedScheme& one : every_scheme(kShape, 3)) {
    ref::Problem p = random_problem(kShape, 4);
    p.schemes = {one.scheme};
    p.visibility.causal = true;
    p.visibility.key_mask.assign(14, 1);
    std::fill(p.visibility.key_mask.begin() + 7, p.visibility.key_mask.end() - 1, 0);  // of batch 1, only the last query sees a key
    const ref::Output output = ref::forward(p);
    const Loss loss(p, 8);
    const ref::Gradients g = ref::backward(p, loss.out, loss.lse);
    for (std::int64_t h = 0; h < 2; ++h) {
      for (std::int64_t i = 0; i < 4; ++i) {
        const ref::Cell cell{1, h, i, 0};
        for (std::int64_t c = 0; c < 3; ++c)
          EXPECT_EQ(output.out[static_cast<std::size_t>(ref::out_row(p, cell) + c)] == 0, i < 3) << one.name;
        EXPECT_EQ(output.lse[static_cast<std::size_t>(8 + 4 * h + i)] == -kInfinity, i < 3) << one.name;
        for (std::int64_t c = 0; c < 4 && i < 3; ++c) EXPECT_EQ(g.q[static_cast<std::size_t>(ref::query_row(p, cell) + c)], 0) << one.name;
      }
    }
    for (const double x : g.q) EXPECT_TRUE(std::isfinite(x)) << one.name;
    EXPECT_LE(compare_with_differences(p, g, loss).worst, kDifferenceTolerance) << one.name;
  }
}

TEST(attention_reference_mask, keys_not_seen_may_hold_anything) {
  for (const NamedScheme& one : every_scheme(kShape, 3)) {
    ref::Problem p = random_problem(kShape, 4);
    p.schemes = {one.scheme};
    p.visibility = {.causal = true, .left = 4};
    p.visibility.key_mask.assign(14, 1);
    p.visibility.key_mask[2] = p.visibility.key_mask[12] = 0;
    const Loss loss(p, 8);
    const ref::Output clean = ref::forward(p);
    const ref::Gradients clean_gradient = ref::backward(p, loss.out, loss.lse);
    for (const std::int64_t row : {2, 12}) {
      for (std::int64_t c = 0; c < 4; ++c) p.k[static_cast<std::size_t>(row * 4 + c)] = c == 0 ? kInfinity : kNan;
      for (std::int64_t c = 0; c < 3; ++c) p.v[static_cast<std::size_t>(row * 3 + c)] = kNan;
    }
    const ref::Output output = ref::forward(p);
    EXPECT_EQ(output.out, clean.out) << one.name;
    EXPECT_EQ(output.lse, clean.lse) << one.name;
    const ref::Gradients gradient = ref::backward(p, loss.out, loss.lse);
    EXPECT_EQ(gradient.q, clean_gradient.q) << one.name;
    EXPECT_EQ(gradient.k, clean_gradient.k) << one.name;
    EXPECT_EQ(gradient.v, clean_gradient.v) << one.name;
  }
}

TEST(attention_reference_mask, grouped_heads_are_repeated_keys) {
  for (const NamedScheme& one : every_scheme(kShape, 3)) {
    ref::Problem p = random_problem(kShape, 4);
    p.schemes = {one.scheme};
    p.visibility.causal = true;
    ref::Problem repeated = p;
    repeated.shape.key_heads = 2;
    repeated.k.clear(), repeated.v.clear();
    for (std::int64_t row = 0; row < 14; ++row) {
      for (int twice = 0; twice < 2; ++twice) {
        repeated.k.insert(repeated.k.end(), p.k.begin() + row * 4, p.k.begin() + row * 4 + 4);
        repeated.v.insert(repeated.v.end(), p.v.begin() + row * 3, p.v.begin() + row * 3 + 3);
      }
    }
    EXPECT_EQ(ref::forward(p).out, ref::forward(repeated).out) << one.name;
  }
}

TEST(attention_reference_mask, key_blocks_merge_by_lse) {
  for (const NamedScheme& one : every_scheme(kShape, 3)) {
    if (one.name == "dense" || one.name == "dense_shared" || one.name == "xlnet" || one.name.starts_with("cope"))
      continue;  // (.., Tk) inputs; see below
    ref::Problem p = random_problem(kShape, 4);
    p.schemes = {one.scheme};
    p.visibility = {.causal = true};
    p.visibility.key_mask.assign(14, 1);
    std::fill(p.visibility.key_mask.begin() + 7, p.visibility.key_mask.begin() + 12, 0);  // some queries of batch 1 see nothing
    const ref::Output merged = ref::merge(kShape, {ref::forward(with_keys(p, 0, 2)), ref::forward(with_keys(p, 2, 3)),
                                                   ref::forward(with_keys(p, 3, 7)), ref::forward(with_keys(p, 7, 7))});
    expect_same(merged, ref::forward(p), one.name);
  }
}

// CoPE's positions count keys of other blocks, so that blocks do not merge; a mask instead of a cut does the same for the others.
TEST(attention_reference_mask, blocks_of_cope_do_not_merge) {
  ref::Problem p = random_problem(kShape, 4);
  Numbers random(2);
  p.schemes = {ref::Cope{.rows = 9, .table = random.values(36)}};
  p.visibility = {.causal = true};
  expect_other(ref::merge(kShape, {ref::forward(with_keys(p, 0, 4)), ref::forward(with_keys(p, 4, 7))}), ref::forward(p), "cope");
}

TEST(attention_reference_mask, the_last_queries_alone_are_the_last_rows) {
  const ref::Shape square{.batch = 1, .queries = 7, .keys = 7, .heads = 2, .key_heads = 1, .width = 4, .value_width = 3};
  for (const NamedScheme& one : every_scheme(square, 3)) {
    if (one.name == "dense" || one.name == "wavlm" || one.name == "xlnet" || one.name == "inkling") continue;  // (B, Tq) inputs
    ref::Problem p = random_problem(square, 4);
    p.schemes = {one.scheme};
    p.visibility.causal = true;
    ref::Problem decode = p;
    decode.shape.queries = 2;
    decode.q = ref::Values(p.q.end() - 16, p.q.end());
    const ref::Output all = ref::forward(p);
    EXPECT_EQ(ref::forward(decode).out, ref::Values(all.out.end() - 12, all.out.end())) << one.name;
  }
}

TEST(attention_reference_mask, sizes_that_do_not_fit_are_refused) {
  const ref::Problem good = random_problem(kShape, 1);
  EXPECT_NO_THROW(ref::forward(good));
  const auto refused = [&](const auto& spoil) {
    ref::Problem p = good;
    spoil(p);
    EXPECT_THROW(ref::forward(p), std::invalid_argument);
  };
  refused([](ref::Problem& p) { p.q.pop_back(); });
  refused([](ref::Problem& p) { p.shape.key_heads = 3; });
  refused([](ref::Problem& p) { p.key_positions = {1, 2}; });
  refused([](ref::Problem& p) { p.visibility.key_mask = {1}; });
  refused([](ref::Problem& p) { p.visibility.query_starts = {0, 4}, p.visibility.key_starts = {0, 7}; });
  refused([](ref::Problem& p) { p.schemes = {ref::Rope{}, ref::Rope{}}; });
  refused([](ref::Problem& p) { p.schemes = {ref::Alibi{{1}}}; });
  refused([](ref::Problem& p) { p.schemes = {ref::Dense{{1, 2, 3, 7}, ref::Values(42)}}; });
  refused([](ref::Problem& p) { p.schemes = {ref::Fire{.widths = {1, 3}, .mlp = ref::Values(6)}}; });
  EXPECT_THROW(ref::backward(good, {1, 2, 3}), std::invalid_argument);
}

}  // namespace
}  // namespace phasor::test
