// SPDX-License-Identifier: Apache-2.0
// What a reading of attention with fresh eyes found: numbers that are none, memory that nobody sees, widths and shapes at their ends.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "phasor/attention.hpp"
#include "phasor/targets.hpp"

namespace phasor {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kNothing = -std::numeric_limits<float>::infinity();

std::vector<float> numbers(std::int64_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> list(static_cast<std::size_t>(count));
  for (float& x : list) x = normal(random);
  return list;
}
ConstTensorView seen(const std::vector<float>& list, const Extents& shape) {
  return {list.data(), DType::f32, shape, contiguous_strides(shape)};
}
TensorView written(std::vector<float>& list, const Extents& shape) { return {list.data(), DType::f32, shape, contiguous_strides(shape)}; }
Positions at(const std::vector<std::int64_t>& list) {
  return {.data = list.data(), .type = PositionType::i64, .shape = {1, 1, static_cast<std::int64_t>(list.size())}, .strides = {0, 0, 1}};
}

template <class Body>
void on_every_target(const Body& body) {
  for (const std::string_view target : targets()) {
    ASSERT_TRUE(force_target(target).ok());
    SCOPED_TRACE(target);
    body();
  }
  ASSERT_TRUE(force_target("").ok());
}

/// One head.
struct Case {
  std::int64_t queries;
  std::int64_t keys;
  std::int64_t width = 16;
  AttentionSpec spec = {};
  std::vector<float> q = numbers(queries * width, 1);
  std::vector<float> k = numbers(keys * width, 2);
  std::vector<float> v = numbers(keys * 16, 3);
  std::vector<float> out = std::vector<float>(static_cast<std::size_t>(queries * 16));
  std::vector<float> lse = std::vector<float>(static_cast<std::size_t>(queries));

  AttentionInputs inputs() const { return {seen(q, {1, queries, 1, width}), seen(k, {1, keys, 1, width}), seen(v, {1, keys, 1, 16})}; }
  void run() {
    const Result<std::int64_t> bytes = attention_workspace(inputs(), spec);
    ASSERT_TRUE(bytes.ok()) << bytes.status().message();
    std::vector<std::byte> workspace(static_cast<std::size_t>(*bytes), std::byte{0xFF});  // NaN
    const Status s = attention(inputs(), spec, {written(out, {1, queries, 1, 16}), written(lse, {1, queries, 1, 1})}, workspace);
    ASSERT_TRUE(s.ok()) << s.message();
  }
  float* query(std::int64_t i) { return q.data() + i * width; }
};

/// NaN in one query is NaN in its own row, out and lse, and changes no bit of another.
void expect_alone(const Case& given, std::int64_t row) {
  Case plain = given;
  plain.run();
  Case changed = given;
  changed.query(row)[0] = kNan;
  changed.run();
  for (std::int64_t i = 0; i < given.queries; ++i) {
    const auto n = static_cast<std::size_t>(i);
    if (i == row) {
      EXPECT_TRUE(std::isnan(changed.lse[n]) && std::isnan(changed.out[n * 16])) << row;
      continue;
    }
    EXPECT_EQ(changed.lse[n], plain.lse[n]) << "row " << i << ", NaN in " << row;
    for (std::size_t c = 0; c < 16; ++c) ASSERT_EQ(changed.out[n * 16 + c], plain.out[n * 16 + c]) << "row " << i << ", NaN in " << row;
  }
}

TEST(AttentionReview, NanOfARowStaysInIt) {
  on_every_target([] {
    for (const std::int64_t queries : {9, 16}) {
      for (std::int64_t row = 0; row < queries; ++row) expect_alone({.queries = queries, .keys = 400}, row);
    }
    expect_alone({.queries = 2, .keys = 1200}, 1);  // decoding
  });
}

TEST(AttentionReview, NanOfARowStaysInItBesideATableOfValues) {
  const std::vector<float> table = numbers(std::int64_t{7} * 16, 4);
  on_every_target([&] {
    Case given = {.queries = 40, .keys = 40};
    given.spec.terms = {TableTerm{.side = TableSide::value, .table = seen(table, {1, 7, 1, 16}), .rows = ClipRows{3, 3}}};
    for (const std::int64_t row : {0, 5, 39}) expect_alone(given, row);
  });
}

TEST(AttentionReview, MergedNanIsNan) {
  const std::vector<float> out = {1, 2};
  const std::vector<float> lse = {kNan, kNothing};
  std::vector<float> merged(2);
  std::vector<float> merged_lse(2);
  const AttentionPart part = {seen(out, {1, 2, 1, 1}), seen(lse, {1, 2, 1, 1})};
  ASSERT_TRUE(merge_attention(std::vector{part, part}, {written(merged, {1, 2, 1, 1}), written(merged_lse, {1, 2, 1, 1})}).ok());
  EXPECT_TRUE(std::isnan(merged[0]) && std::isnan(merged_lse[0]));
  EXPECT_EQ(merged[1], 0);
  EXPECT_EQ(merged_lse[1], kNothing);
}

// A cache that is longer than what was written: nobody sees its end.
TEST(AttentionReview, MemoryBehindCausalityIsNotUsed) {
  on_every_target([] {
    for (const std::int64_t queries : {3, 20}) {
      std::vector<std::int64_t> positions(static_cast<std::size_t>(queries));
      for (std::int64_t i = 0; i < queries; ++i) positions[static_cast<std::size_t>(i)] = i;
      Case whole = {.queries = queries, .keys = 70};
      whole.spec.visibility.mask = Mask::causal;
      whole.spec.query_positions = at(positions);
      Case recycled = whole;
      std::fill(recycled.k.begin() + queries * 16, recycled.k.end(), kNan);
      std::fill(recycled.v.begin() + queries * 16, recycled.v.end(), kNan);
      whole.run();
      recycled.run();
      EXPECT_EQ(whole.out, recycled.out) << queries;
      EXPECT_EQ(whole.lse, recycled.lse) << queries;
    }
  });
}

TEST(AttentionReview, XposOfAnyWidth) {
  const std::int64_t width = 8192;
  const Result<Rotary> rotary = Rotary::make({.head_dim = width});
  ASSERT_TRUE(rotary.ok());
  Case c = {.queries = 9, .keys = 9, .width = width};
  c.spec.content = XposContent{*rotary};
  c.spec.visibility.mask = Mask::causal;
  const AttentionInputs inputs = c.inputs();
  const Result<std::int64_t> bytes = attention_workspace(inputs, c.spec);
  ASSERT_TRUE(bytes.ok());
  std::vector<std::byte> workspace(static_cast<std::size_t>(*bytes) + 65536, std::byte{0x5A});
  ASSERT_TRUE(
      attention(inputs, c.spec, {written(c.out, {1, 9, 1, 16})}, std::span(workspace).first(static_cast<std::size_t>(*bytes))).ok());
  for (auto n = static_cast<std::size_t>(*bytes); n < workspace.size(); ++n) ASSERT_EQ(workspace[n], std::byte{0x5A});
  for (std::size_t n = 0; n < 16; ++n) EXPECT_NEAR(c.out[n], c.v[n], 1e-6);
}

// Tiles of xPos have fewer keys than others: there are more of them than keys / kKeyTile.
TEST(AttentionReview, CopeBesideShortTiles) {
  const std::int64_t tokens = 512;
  const std::vector<float> table = numbers(std::int64_t{600} * 16, 4);
  const Result<Rotary> rotary = Rotary::make({.head_dim = 16});
  ASSERT_TRUE(rotary.ok());
  Case c = {.queries = tokens, .keys = tokens};
  c.spec.content = XposContent{.rotary = *rotary, .scale_base = 1};
  c.spec.visibility.mask = Mask::causal;
  c.spec.terms = {CopeTerm{.table = seen(table, {1, 600, 1, 16})}};
  c.run();
  const Extents shape = {1, tokens, 1, 16};
  std::vector<float> gradient(static_cast<std::size_t>(tokens * 16));
  const AttentionGradients gradients = {.q = written(gradient, shape)};
  const Result<std::int64_t> bytes = attention_backward_workspace(c.inputs(), c.spec, gradients);
  ASSERT_TRUE(bytes.ok());
  std::vector<std::byte> workspace(static_cast<std::size_t>(*bytes) + 65536, std::byte{0x5A});
  const AttentionSaved saved = {seen(c.out, shape), seen(c.lse, {1, tokens, 1, 1}), seen(c.q, shape)};
  ASSERT_TRUE(attention_backward(c.inputs(), c.spec, saved, gradients, std::span(workspace).first(static_cast<std::size_t>(*bytes))).ok());
  for (auto n = static_cast<std::size_t>(*bytes); n < workspace.size(); ++n) ASSERT_EQ(workspace[n], std::byte{0x5A});
}

TEST(AttentionReview, EveryKeyExemptAlsoAtNegativePositions) {
  std::vector<std::int64_t> positions(20);
  for (std::size_t i = 0; i < 20; ++i) positions[i] = static_cast<std::int64_t>(i) - 19;
  const std::vector<std::int64_t> far = {INT64_MAX};
  Case full = {.queries = 20, .keys = 20};
  Case exempt = full;
  exempt.spec.visibility.mask = Mask::causal;
  exempt.spec.visibility.prefix = Integers(far.data(), 1);
  exempt.spec.query_positions = exempt.spec.key_positions = at(positions);
  full.run();
  exempt.run();
  EXPECT_EQ(full.out, exempt.out);
}

/// The backward of no batch row, or of no head, with that gradient.
void expect_nothing(const Extents& shape, const AttentionSpec& spec, const AttentionGradients& gradients) {
  static const float memory[64] = {};
  const auto view = [](const Extents& s) { return ConstTensorView{memory, DType::f32, s, contiguous_strides(s)}; };
  const AttentionInputs inputs = {view(shape), view(shape), view(shape)};
  const Result<std::int64_t> bytes = attention_backward_workspace(inputs, spec, gradients);
  ASSERT_TRUE(bytes.ok()) << bytes.status().message();
  std::vector<std::byte> workspace(static_cast<std::size_t>(*bytes));
  const AttentionSaved saved = {view(shape), view({shape[0], shape[1], shape[2], 1}), view(shape)};
  const Status s = attention_backward(inputs, spec, saved, gradients, workspace);
  EXPECT_TRUE(s.ok()) << s.message();
}
TEST(AttentionReview, GradientsOfNothing) {
  std::vector<float> memory(8);
  const Result<Bias> alibi = Bias::make(Alibi{.heads = 2});
  ASSERT_TRUE(alibi.ok());
  AttentionSpec gated;
  gated.terms = {BiasTerm{.bias = *alibi, .gate = seen(memory, {0, 4, 2, 1})}};
  std::vector<float> gradient(8);
  AttentionGradients of_gate;
  of_gate.terms = {TermGradient{.features = written(gradient, {0, 4, 2, 1})}};
  expect_nothing({0, 4, 2, 4}, gated, of_gate);
  AttentionSpec shifted;
  shifted.content_shift = seen(memory, {1, 1, 0, 4});
  expect_nothing({1, 4, 0, 4}, shifted, {.content_shift = written(gradient, {1, 1, 0, 4})});
}

}  // namespace
}  // namespace phasor
