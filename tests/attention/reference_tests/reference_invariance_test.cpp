// SPDX-License-Identifier: Apache-2.0
// What moving, permuting and reversing tokens does to the attention reference.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "attention/support/compare.hpp"

namespace phasor::test {
namespace {

constexpr ref::Shape kShape{.batch = 1, .queries = 5, .keys = 7, .heads = 2, .key_heads = 1, .width = 4, .value_width = 3};
constexpr ref::Shape kSquare{.batch = 1, .queries = 6, .keys = 6, .heads = 2, .key_heads = 1, .width = 4, .value_width = 3};

/// Rows of a tensor of (rows, width), in another order.
ref::Values reordered(const ref::Values& x, const std::vector<std::size_t>& order) {
  const std::size_t width = x.size() / order.size();
  ref::Values result;
  for (const std::size_t row : order) {
    const auto first = x.begin() + static_cast<std::ptrdiff_t>(row * width);
    result.insert(result.end(), first, first + static_cast<std::ptrdiff_t>(width));
  }
  return result;
}

TEST(attention_reference_invariance, relative_schemes_see_distances_only) {
  // What reads a position itself: the key-position form (out is the same: see below), FIRE beyond its length, grids, temperature, groups
  // and chunks, keys that were rotated before.
  const std::set<std::string> absolute = {"alibi_key_position", "fire_relu",         "fire_silu",   "swin",      "beit", "sam", "inkling",
                                          "rope_keys_rotated",  "xpos_keys_rotated", "self_extend", "dual_chunk"};
  for (const NamedScheme& one : every_scheme(kShape, 3)) {
    ref::Problem p = random_problem(kShape, 4);
    p.schemes = {one.scheme};
    p.visibility.causal = true;
    const ref::Output here = ref::forward(p);
    p.query_positions = {2, 3, 4, 5, 6};
    p.key_positions = {0, 1, 2, 3, 4, 5, 6};
    for (auto& x : p.query_positions) x += 5;
    for (auto& x : p.key_positions) x += 5;
    if (one.name == "swin" || one.name == "beit" || one.name == "sam") continue;  // there is no such token
    const ref::Output there = ref::forward(p);
    if (absolute.contains(one.name)) {
      EXPECT_GT(apart(there.lse, here.lse), 1e-4) << one.name;
    } else {
      expect_same(there, here, one.name);
    }
  }
}

TEST(attention_reference_invariance, keys_may_come_in_any_order_with_their_positions) {
  const std::vector<std::size_t> order = {3, 0, 6, 2, 5, 1, 4};
  for (const NamedScheme& one : every_scheme(kShape, 3)) {
    if (one.name.starts_with("dense") || one.name == "xlnet") continue;  // (.., Tk) inputs
    ref::Problem p = random_problem(kShape, 4);
    p.schemes = {one.scheme};
    p.visibility = {.causal = true, .key_mask = {1, 1, 0, 1, 1, 1, 1}};
    const ref::Output in_order = ref::forward(p);
    p.k = reordered(p.k, order);
    p.v = reordered(p.v, order);
    p.query_positions = {2, 3, 4, 5, 6};
    p.key_positions = {3, 0, 6, 2, 5, 1, 4};
    p.visibility.key_mask = {1, 1, 1, 0, 1, 1, 1};
    expect_same(ref::forward(p), in_order, one.name);
  }
}

TEST(attention_reference_invariance, without_an_encoding_permuted_tokens_give_permuted_outputs_and_with_one_they_do_not) {
  const std::vector<std::size_t> order = {3, 0, 5, 2, 1, 4};
  const auto permuted_commutes = [&](const std::vector<ref::Scheme>& schemes, bool causal) {
    ref::Problem p = random_problem(kSquare, 4);
    p.schemes = schemes;
    p.visibility.causal = causal;
    const ref::Values wanted = reordered(ref::forward(p).out, order);
    p.q = reordered(p.q, order);
    p.k = reordered(p.k, order);
    p.v = reordered(p.v, order);
    return apart(ref::forward(p).out, wanted);
  };
  EXPECT_LE(permuted_commutes({}, false), kSameTolerance);
  EXPECT_GT(permuted_commutes({}, true), 1e-3);  // a causal mask is an encoding
  for (const NamedScheme& one : every_scheme(kSquare, 3)) {
    EXPECT_GT(permuted_commutes({one.scheme}, one.causal_only), 1e-3) << one.name;
  }
}

/// The scheme for the sequence read from its end.
ref::Scheme mirrored(const ref::Scheme& scheme) {
  ref::Scheme result = scheme;
  if (auto* t5 = std::get_if<ref::T5>(&result)) {
    for (std::size_t half = 0; half < t5->table.size(); half += 8) {
      for (std::size_t n = 1; n < 4; ++n) std::swap(t5->table[half + n], t5->table[half + 4 + n]);
    }
  }
  if (auto* diagonal = std::get_if<ref::LearnedDiagonal>(&result)) {
    std::swap(diagonal->left, diagonal->right);
    for (auto row = diagonal->table.begin(); row != diagonal->table.end(); row += 5) std::reverse(row, row + 5);
  }
  if (auto* shaw = std::get_if<ref::Shaw>(&result)) {
    const auto rows = static_cast<std::size_t>(shaw->left + 1 + shaw->right);
    std::vector<std::size_t> order(shaw->per_head ? 2 * rows : rows);
    for (std::size_t n = 0; n < order.size(); ++n) order[n] = n / rows * rows + rows - 1 - n % rows;
    std::swap(shaw->left, shaw->right);
    shaw->keys = reordered(shaw->keys, order);
    if (!shaw->values.empty()) shaw->values = reordered(shaw->values, order);
  }
  if (auto* xl = std::get_if<ref::TransformerXl>(&result)) {
    for (std::size_t n = 0; n < xl->projection.size(); ++n) {
      const bool sine = xl->order == ref::XlOrder::halves ? n % 6 < 3 : n % 2 == 0;
      if (sine) xl->projection[n] = -xl->projection[n];
    }
  }
  if (auto* swin = std::get_if<ref::Swin>(&result)) {
    for (auto head = swin->table.begin(); head != swin->table.end(); head += 21) std::reverse(head, head + 21);
  }
  if (auto* rope = std::get_if<ref::Rope>(&result)) {
    rope->ladder.frequencies = rope->ladder.rotary_width == 2 ? ref::Values{-1} : ref::Values{-1, -1 / std::sqrt(50)};
  }
  return result;
}

TEST(attention_reference_invariance, a_sequence_read_from_its_end_with_a_mirrored_table_gives_the_mirrored_output) {
  const ref::Shape shape{.batch = 1, .queries = 8, .keys = 8, .heads = 2, .key_heads = 1, .width = 4, .value_width = 3};
  const std::set<std::string> mirrors = {"alibi",          "t5",
                                         "kerple_log",     "kerple_power",
                                         "sandwich",       "learned_diagonal",
                                         "swin",           "shaw_k",
                                         "shaw_kv",        "shaw_kv_per_head",
                                         "transformer_xl", "conformer",
                                         "rope",           "rope_interleaved"};
  const std::vector<std::size_t> order = {7, 6, 5, 4, 3, 2, 1, 0};
  std::size_t tested = 0;
  for (const NamedScheme& one : every_scheme(shape, 3)) {
    if (!mirrors.contains(one.name)) continue;
    ref::Problem p = random_problem(shape, 4);
    p.schemes = {one.scheme};
    p.visibility = {.left = 5, .right = 2};
    const ref::Values wanted = reordered(ref::forward(p).out, order);
    p.q = reordered(p.q, order);
    p.k = reordered(p.k, order);
    p.v = reordered(p.v, order);
    p.schemes = {mirrored(one.scheme)};
    p.visibility = {.left = 2, .right = 5};
    EXPECT_LE(apart(ref::forward(p).out, wanted), kSameTolerance) << one.name;
    ++tested;
  }
  EXPECT_EQ(tested, mirrors.size());
}

}  // namespace
}  // namespace phasor::test
