// SPDX-License-Identifier: Apache-2.0
// The tiled backward against the reference's: shapes, masks, contents, dtypes, targets; and what must not matter.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "attention/support/compare.hpp"
#include "attention/support/held.hpp"
#include "phasor/targets.hpp"

namespace phasor::test {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

/// What a gradient may be off by, of the largest one of its tensor. float64 and float32: sums of some hundred products, each off by half an
/// ulp, and exponentials off by a few. 16 bits: the result is rounded once (half an ulp), and so was the output, which enters each score's
/// gradient.
double bound_of(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return 1e-12;
    case DType::f32:
      return 0x1p-19;
    case DType::f16:
      return 0x1p-9;
    case DType::bf16:
      return 0x1p-6;
  }
  return 0;
}

double largest(const ref::Values& values) {
  double most = 0;
  for (const double x : values) most = std::max(most, std::fabs(x));
  return most;
}

void expect_near(const ref::Values& is, const ref::Values& wanted, double bound, const std::string& name) {
  EXPECT_LE(apart(is, wanted), bound * std::max(largest(wanted), 1e-3)) << name;
}

void expect_gradients(const ref::Gradients& is, const ref::Gradients& wanted, double bound, const std::string& name) {
  expect_near(is.q, wanted.q, bound, name + ": q");
  expect_near(is.k, wanted.k, bound, name + ": k");
  expect_near(is.v, wanted.v, bound, name + ": v");
}

struct Case {
  std::string name;
  ref::Problem problem;
};

/// Gradients that flow in, as the dtype holds them.
struct Incoming {
  ref::Values out;
  ref::Values lse;
};
Incoming incoming(const ref::Shape& s, DType dtype) {
  Numbers random(71);
  Incoming in{random.values(s.batch * s.queries * s.heads * s.value_width), random.values(s.batch * s.queries * s.heads)};
  round_all(in.out, dtype);
  round_all(in.lse, dtype == DType::f64 ? DType::f64 : DType::f32);
  return in;
}

/// On every target.
void expect_reference(const Case& c, DType dtype, Order order = Order::tokens_first) {
  std::optional<Wanted> wanted;
  for (const std::string_view target : targets()) {
    ASSERT_TRUE(force_target(target).ok());
    Bridge bridge(c.problem, dtype, order);
    if (!wanted) wanted.emplace(bridge.problem, dtype);
    expect_wanted(bridge, *wanted, dtype, c.name + " " + name_of(dtype) + " " + std::string(target));
  }
  ASSERT_TRUE(force_target("").ok());
}

constexpr ref::Shape kShape{.batch = 2, .queries = 101, .keys = 131, .heads = 2, .key_heads = 1, .width = 20, .value_width = 12};

std::vector<Case> shapes() {
  std::vector<Case> all;
  const auto add = [&](const std::string& name, const ref::Shape& shape, bool causal) {
    Case c{name, random_problem(shape, 5)};
    c.problem.visibility.causal = causal;
    all.push_back(c);
  };
  add("plain", kShape, false);
  add("causal", kShape, true);
  add("heads", {.batch = 1, .queries = 97, .keys = 65, .heads = 3, .key_heads = 3, .width = 32, .value_width = 32}, false);
  add("grouped heads", {.batch = 1, .queries = 70, .keys = 70, .heads = 6, .key_heads = 2, .width = 8, .value_width = 40}, true);
  add("eight key heads", {.batch = 1, .queries = 30, .keys = 70, .heads = 8, .key_heads = 8, .width = 16, .value_width = 16}, true);
  add("many tiles", {.batch = 1, .queries = 300, .keys = 700, .heads = 2, .key_heads = 1, .width = 8, .value_width = 8}, true);
  add("more queries than keys", {.batch = 1, .queries = 200, .keys = 90, .heads = 1, .key_heads = 1, .width = 16, .value_width = 8}, true);
  add("one query", {.batch = 2, .queries = 1, .keys = 150, .heads = 2, .key_heads = 1, .width = 64, .value_width = 64}, true);
  add("one key", {.batch = 1, .queries = 5, .keys = 1, .heads = 1, .key_heads = 1, .width = 4, .value_width = 4}, false);
  for (const std::int64_t n : {63, 64, 65, 95, 96, 97, 128, 192}) {
    add("edge " + std::to_string(n), {.batch = 1, .queries = n, .keys = n, .heads = 1, .key_heads = 1, .width = 4, .value_width = 4}, true);
  }
  return all;
}

/// Positions in no order, some twice.
ref::Integers scattered(std::int64_t count, std::int64_t step) {
  ref::Integers positions;
  for (std::int64_t n = 0; n < count; ++n) positions.push_back(n * step % 150);
  return positions;
}

std::vector<Case> masks() {
  std::vector<Case> all;
  const auto add = [&](const std::string& name, const ref::Visibility& visibility) {
    Case c{name, random_problem(kShape, 6)};
    c.problem.visibility = visibility;
    all.push_back(c);
    return &all.back().problem;
  };
  add("window", {.causal = true, .left = 40});
  add("window of both sides", {.left = 20, .right = 33});
  add("prefix", {.causal = true, .prefix = {50, 120}});
  add("prefix and window", {.causal = true, .left = 30, .prefix = {50, 120}});
  std::vector<std::uint8_t> hidden;
  for (std::int64_t n = 0; n < kShape.batch * kShape.keys; ++n) hidden.push_back(n % 131 < 90 && n % 7 != 3 ? 1 : 0);
  add("key mask", {.key_mask = hidden});
  add("causal key mask", {.causal = true, .key_mask = hidden});
  add("soft cap", {.causal = true})->softcap = 0.6;
  ref::Problem* const p = add("positions", {.causal = true, .left = 60});
  p->query_positions = scattered(kShape.batch * kShape.queries, 37);
  p->key_positions = scattered(kShape.batch * kShape.keys, 53);
  ref::Problem* const shifted = add("positions in a row", {.causal = true});
  for (std::int64_t n = 0; n < kShape.batch * kShape.queries; ++n) shifted->query_positions.push_back(1000 + n % kShape.queries);
  for (std::int64_t n = 0; n < kShape.batch * kShape.keys; ++n) shifted->key_positions.push_back(930 + n % kShape.keys);
  const ref::Shape ragged{.batch = 1, .queries = 230, .keys = 260, .heads = 2, .key_heads = 1, .width = 12, .value_width = 20};
  Case varlen{"varlen", random_problem(ragged, 7)};
  varlen.problem.visibility = {.causal = true, .query_starts = {0, 100, 100, 130, 230}, .key_starts = {0, 70, 90, 130, 260}};
  all.push_back(varlen);
  varlen.name = "varlen, full, with prefixes";
  varlen.problem.visibility.prefix = {3, 5, 40, 60};
  all.push_back(varlen);
  return all;
}

/// Windows and chunks that end within tiles.
std::vector<Case> contents() {
  const ref::Ladder part{.rotary_width = 8, .base = 50};
  const ref::Ladder whole{.base = 50, .pairing = ref::Pairing::interleaved, .amplitude = 1.1};
  const std::vector<NamedScheme> schemes = {
      {"rope", ref::Rope{part}},
      {"rope_interleaved", ref::Rope{whole}},
      {"rope_keys_rotated", ref::Rope{whole, true}},
      {"xpos", ref::Xpos{.ladder = whole, .scale_base = 100}},
      {"rerope", ref::MappedRope{.ladder = whole, .window = 50}, true},
      {"leaky_rerope", ref::MappedRope{.ladder = part, .kind = ref::MapKind::leaky_rerope, .window = 50, .factor = 3}, true},
      {"self_extend", ref::MappedRope{.ladder = part, .kind = ref::MapKind::self_extend, .window = 48, .group = 4}, true},
      {"dual_chunk", ref::MappedRope{.ladder = whole, .kind = ref::MapKind::dual_chunk, .chunk = 50, .local = 10}, true}};
  ref::Shape shape = kShape;
  shape.batch = shape.heads = 1;  // the reference of a rotation takes its time
  std::vector<Case> all;
  for (const NamedScheme& scheme : schemes) {
    Case c{scheme.name, random_problem(shape, 8)};
    c.problem.visibility.causal = true;
    c.problem.schemes = {scheme.scheme};
    all.push_back(c);
    if (scheme.causal_only) continue;
    c.name += ", full";
    c.problem.visibility.causal = false;
    all.push_back(c);
  }
  return all;
}

std::vector<Case> every_case() {
  std::vector<Case> all = shapes();
  for (const Case& c : masks()) all.push_back(c);
  for (const Case& c : contents()) all.push_back(c);
  return all;
}

TEST(attention_backward, float64_is_the_reference) {
  for (const Case& c : every_case()) expect_reference(c, DType::f64);
}

TEST(attention_backward, float32_is_the_reference_within_its_rounding) {
  for (const Case& c : every_case()) expect_reference(c, DType::f32);
}

TEST(attention_backward, sixteen_bits_are_the_reference_within_their_rounding) {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    for (const Case& c : masks()) expect_reference(c, dtype);
  }
}

TEST(attention_backward, strides_do_not_matter) {
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16}) {
    expect_reference(masks().front(), dtype, Order::heads_first);
    expect_reference(contents().front(), dtype, Order::heads_first);
  }
}

// ---- What must not matter: bits ----

ref::Gradients gradients_of(const Case& c, const Runner& runner = {}) {
  Bridge bridge(c.problem, DType::f32);
  bridge.spec.execution.runner = runner;
  const Incoming in = incoming(c.problem.shape, DType::f32);
  EXPECT_TRUE(bridge.forward().ok()) << c.name;
  EXPECT_TRUE(bridge.backward(in.out, in.lse).ok()) << c.name;
  return bridge.reference_gradients();
}

void expect_same_bits(const ref::Gradients& is, const ref::Gradients& wanted, const std::string& name) {
  EXPECT_EQ(is.q, wanted.q) << name;
  EXPECT_EQ(is.k, wanted.k) << name;
  EXPECT_EQ(is.v, wanted.v) << name;
}

TEST(attention_backward, order_of_tasks_does_not_change_a_bit) {
  const Runner reversed{[](void*, std::int64_t tasks, void (*task)(void*, std::int64_t), void* context) {
                          for (std::int64_t i = tasks - 1; i >= 0; --i) task(context, i);
                        },
                        nullptr};
  for (const Case& c : every_case()) expect_same_bits(gradients_of(c, reversed), gradients_of(c), c.name);
}

TEST(attention_backward, twice_is_the_same) {
  for (const Case& c : masks()) expect_same_bits(gradients_of(c), gradients_of(c), c.name);
}

TEST(attention_backward, one_gradient_alone_has_the_bits_of_all) {
  std::vector<Case> some = masks();
  for (const Case& c : contents()) some.push_back(c);
  for (const Case& c : some) {
    const ref::Gradients all = gradients_of(c);
    for (int which = 0; which < 3; ++which) {
      Bridge bridge(c.problem, DType::f32);
      const Incoming in = incoming(c.problem.shape, DType::f32);
      if (which != 0) bridge.gradients.q = {};
      if (which != 1) bridge.gradients.k = {};
      if (which != 2) bridge.gradients.v = {};
      ASSERT_TRUE(bridge.forward().ok()) << c.name;
      ASSERT_TRUE(bridge.backward(in.out, in.lse).ok()) << c.name;
      const ref::Gradients one = bridge.reference_gradients();
      EXPECT_EQ(one.q, which == 0 ? all.q : ref::Values(all.q.size(), 0)) << c.name;
      EXPECT_EQ(one.k, which == 1 ? all.k : ref::Values(all.k.size(), 0)) << c.name;
      EXPECT_EQ(one.v, which == 2 ? all.v : ref::Values(all.v.size(), 0)) << c.name;
    }
  }
}

// ---- What nobody sees ----

/// Row `row` of (rows, width) of a view in token order.
void spoil(const ConstTensorView& view, std::int64_t row, std::int64_t width) {
  for (std::int64_t c = 0; c < width; ++c) job::store_element(const_cast<void*>(view.data), view.dtype, row * width + c, kNan);
}

TEST(attention_backward, what_nobody_sees_may_be_anything) {
  Case c{"blind", random_problem({.batch = 1, .queries = 120, .keys = 100, .heads = 2, .key_heads = 1, .width = 8, .value_width = 8}, 9)};
  c.problem.visibility.causal = true;  // queries before the first key see nothing
  c.problem.visibility.key_mask.assign(100, 1);
  for (const std::size_t hidden : {3U, 64U, 99U}) c.problem.visibility.key_mask[hidden] = 0;
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16}) {
    Bridge bridge(c.problem, dtype);
    Incoming in = incoming(c.problem.shape, dtype);
    const ref::Gradients wanted = ref::backward(bridge.problem, in.out, in.lse);
    for (std::int64_t i = 0; i < 20; ++i) {
      spoil(bridge.inputs.q, i, 16);
      std::fill_n(in.out.begin() + i * 16, 16, i % 2 == 0 ? kNan : kInfinity);
      in.lse[static_cast<std::size_t>(i)] = in.lse[static_cast<std::size_t>(120 + i)] = kNan;
    }
    for (const std::int64_t hidden : {3, 64, 99}) {
      spoil(bridge.inputs.k, hidden, 8);
      spoil(bridge.inputs.v, hidden, 8);
    }
    ASSERT_TRUE(bridge.forward().ok());
    EXPECT_EQ(bridge.output().lse[0], -kInfinity);
    ASSERT_TRUE(bridge.backward(in.out, in.lse).ok());
    const ref::Gradients is = bridge.reference_gradients();
    expect_gradients(is, wanted, bound_of(dtype), name_of(dtype));
    EXPECT_TRUE(std::all_of(is.q.begin(), is.q.begin() + 20 * 16, [](double x) { return x == 0; })) << "queries that see nothing";
    for (const std::int64_t hidden : {3, 64, 99}) {
      EXPECT_EQ(largest(ref::Values(is.k.begin() + hidden * 8, is.k.begin() + hidden * 8 + 8)), 0);
      EXPECT_EQ(largest(ref::Values(is.v.begin() + hidden * 8, is.v.begin() + hidden * 8 + 8)), 0);
    }
  }
}

TEST(attention_backward, an_infinite_value_stays_with_those_who_see_it) {
  const ref::Shape shape{.batch = 1, .queries = 100, .keys = 100, .heads = 1, .key_heads = 1, .width = 8, .value_width = 8};
  Case c{"infinite", random_problem(shape, 18)};
  c.problem.visibility.causal = true;
  Bridge bridge(c.problem, DType::f32);
  const Incoming in = incoming(shape, DType::f32);
  const ref::Gradients wanted = ref::backward(bridge.problem, in.out, in.lse);
  ASSERT_TRUE(bridge.forward().ok());
  constexpr std::int64_t kKey = 75;
  job::store_element(const_cast<void*>(bridge.inputs.v.data), DType::f32, kKey * 8 + 3, kInfinity);
  ASSERT_TRUE(bridge.backward(in.out, in.lse).ok());
  const ref::Values is = bridge.reference_gradients().q;
  expect_near(ref::Values(is.begin(), is.begin() + kKey * 8), ref::Values(wanted.q.begin(), wanted.q.begin() + kKey * 8),
              bound_of(DType::f32), c.name);
  EXPECT_FALSE(std::isfinite(is[kKey * 8]));
}

/// Keys after every query, as a cache has them in its free pages.
TEST(attention_backward, keys_beyond_every_query_may_be_anything) {
  const ref::Shape shape{.batch = 1, .queries = 10, .keys = 80, .heads = 1, .key_heads = 1, .width = 8, .value_width = 8};
  Case c{"free pages", random_problem(shape, 10)};
  c.problem.visibility = {.causal = true, .left = 40};
  for (std::int64_t i = 0; i < shape.queries; ++i) c.problem.query_positions.push_back(50 + i);
  for (std::int64_t j = 0; j < shape.keys; ++j) c.problem.key_positions.push_back(j);
  Bridge bridge(c.problem, DType::f32);
  const Incoming in = incoming(shape, DType::f32);
  const ref::Gradients wanted = ref::backward(bridge.problem, in.out, in.lse);
  ASSERT_TRUE(bridge.forward().ok());
  for (std::int64_t j = 0; j < shape.keys; ++j) {
    if (j >= 10 && j < 60) continue;
    spoil(bridge.inputs.k, j, 8);
    spoil(bridge.inputs.v, j, 8);
  }
  ASSERT_TRUE(bridge.backward(in.out, in.lse).ok());
  expect_gradients(bridge.reference_gradients(), wanted, bound_of(DType::f32), c.name);
}

}  // namespace
}  // namespace phasor::test
