// SPDX-License-Identifier: Apache-2.0
// Attention without terms against the reference: shapes, masks, positions, and every way that q meets k.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "attention/support/held.hpp"
#include "tensor.hpp"

namespace phasor::test {
namespace {

constexpr DType kEveryDtype[] = {DType::f64, DType::f32, DType::f16, DType::bf16};

std::vector<NamedScheme> contents() {
  const ref::Ladder part{.rotary_width = 4, .base = 50};
  const ref::Ladder whole{.base = 50, .pairing = ref::Pairing::interleaved, .amplitude = 1.1};
  const ref::Ladder given{.rotary_width = 6, .frequencies = {1.5, 0.3, -0.01}, .amplitude = 0.9};
  return {{"rope", ref::Rope{part}},
          {"rope interleaved", ref::Rope{whole}},
          {"rope keys rotated", ref::Rope{given, true}},
          {"xpos", ref::Xpos{.ladder = whole, .scale_base = 64}},
          {"xpos steep", ref::Xpos{.ladder = part, .scale_base = 3}, true},  // scores of keys ahead grow beyond all bounds
          {"rerope", ref::MappedRope{.ladder = whole, .window = 20}, true},
          {"leaky rerope", ref::MappedRope{.ladder = given, .kind = ref::MapKind::leaky_rerope, .window = 30, .factor = 3}, true},
          {"self-extend", ref::MappedRope{.ladder = part, .kind = ref::MapKind::self_extend, .window = 33, .group = 4}, true},
          {"dual chunk", ref::MappedRope{.ladder = whole, .kind = ref::MapKind::dual_chunk, .chunk = 30, .local = 7}, true}};
}

TEST(attention_content, plain_is_the_reference_with_every_mask_and_shape) {
  for (const ref::Shape& shape : edge_shapes()) {
    for (const NamedMask& mask : every_mask(shape)) {
      ref::Problem p = random_problem(shape, 1);
      p.visibility = mask.visibility;
      const std::string name = mask.name + " " + std::to_string(shape.queries) + " x " + std::to_string(shape.keys);
      expect_forward(p, DType::f64, name);
      expect_forward(p, DType::f32, name, Order::heads_first);
    }
  }
}

class AttentionOnEveryTarget : public EveryTarget {};

TEST_F(AttentionOnEveryTarget, plain_is_the_reference) {
  on_every_target([] {
    for (const std::int64_t queries : {5, 100}) {
      ref::Problem p =
          random_problem({.batch = 2, .queries = queries, .keys = 150, .heads = 2, .key_heads = 1, .width = 20, .value_width = 17}, 12);
      p.visibility.causal = true;
      for (const DType dtype : kEveryDtype) expect_forward(p, dtype, std::to_string(queries));
    }
  });
}

TEST(attention_content, plain_is_the_reference_in_16_bits) {
  for (const ref::Shape& shape : edge_shapes()) {
    ref::Problem p = random_problem(shape, 2);
    p.visibility.causal = true;
    expect_forward(p, DType::f16, std::to_string(shape.queries));
    expect_forward(p, DType::bf16, std::to_string(shape.queries), Order::heads_first);
  }
}

TEST(attention_content, a_soft_cap_comes_last) {
  ref::Problem p = random_problem({.batch = 2, .queries = 40, .keys = 70, .heads = 2, .width = 12, .value_width = 12}, 3);
  p.scale = 3;
  p.softcap = 2.5;
  for (const DType dtype : kEveryDtype) expect_forward(p, dtype, "softcap");
}

TEST(attention_content, sequences_one_after_the_other_do_not_see_each_other) {
  ref::Problem p = random_problem({.queries = 210, .keys = 230, .heads = 2, .width = 8, .value_width = 8}, 4);
  p.visibility.query_starts = {0, 5, 5, 105, 106, 210};
  p.visibility.key_starts = {0, 9, 20, 20, 150, 230};
  for (const bool causal : {false, true}) {
    p.visibility.causal = causal;
    p.visibility.prefix = causal ? ref::Integers{2, 0, 0, 140, 50} : ref::Integers{};
    for (const DType dtype : {DType::f64, DType::f32}) expect_forward(p, dtype, "varlen");
  }
}

TEST(attention_content, positions_in_any_order_mask_by_distance) {
  const ref::Shape shape{.batch = 2, .queries = 100, .keys = 150, .heads = 2, .width = 8, .value_width = 8};
  ref::Problem p = random_problem(shape, 5);
  for (std::int64_t n = 0; n < 2 * shape.queries; ++n) p.query_positions.push_back((n * 37) % 211 - 50);
  for (std::int64_t n = 0; n < 2 * shape.keys; ++n) p.key_positions.push_back((n * 71) % 307 - 100);
  for (const NamedMask& mask : every_mask(shape)) {
    p.visibility = mask.visibility;
    for (const DType dtype : {DType::f64, DType::f32}) expect_forward(p, dtype, mask.name);
  }
}

TEST(attention_content, every_content_is_the_reference) {
  for (const auto& [queries, keys] : {std::pair{1, 65}, {8, 100}, {97, 129}, {100, 31}}) {
    const ref::Shape shape{.batch = 2, .queries = queries, .keys = keys, .heads = 2, .key_heads = 1, .width = 10, .value_width = 7};
    for (const NamedScheme& content : contents()) {
      if (std::holds_alternative<ref::MappedRope>(content.scheme) && queries > keys) continue;  // their positions are negative
      ref::Problem p = random_problem(shape, 6);
      p.schemes = {content.scheme};
      p.visibility.causal = content.causal_only;
      const std::string name = content.name + " " + std::to_string(shape.queries) + " x " + std::to_string(shape.keys);
      expect_forward(p, DType::f64, name);
      expect_forward(p, DType::f32, name, Order::heads_first);
    }
  }
}

TEST(attention_content, every_content_is_the_reference_in_16_bits) {
  for (const NamedScheme& content : contents()) {
    ref::Problem p = random_problem({.queries = 70, .keys = 130, .heads = 2, .key_heads = 1, .width = 10, .value_width = 7}, 7);
    p.schemes = {content.scheme};
    p.visibility.causal = true;
    for (const DType dtype : {DType::f16, DType::bf16}) expect_forward(p, dtype, content.name);
  }
}

TEST(attention_content, every_content_is_the_reference_at_positions_in_any_order) {
  const ref::Shape shape{.batch = 2, .queries = 70, .keys = 130, .heads = 2, .width = 10, .value_width = 6};
  for (const NamedScheme& content : contents()) {
    ref::Problem p = random_problem(shape, 8);
    p.schemes = {content.scheme};
    p.visibility.causal = true;
    for (std::int64_t n = 0; n < 2 * shape.queries; ++n) p.query_positions.push_back((n * 37) % 151);
    for (std::int64_t n = 0; n < 2 * shape.keys; ++n) p.key_positions.push_back((n * 71) % 137);
    for (const DType dtype : {DType::f64, DType::f32}) expect_forward(p, dtype, content.name);
  }
}

TEST(attention_content, every_content_has_the_gradients_of_the_reference) {
  const ref::Shape shape{.batch = 2, .queries = 40, .keys = 70, .heads = 2, .key_heads = 1, .width = 10, .value_width = 6};
  for (const NamedScheme& content : contents()) {
    ref::Problem p = random_problem(shape, 14);
    p.schemes = {content.scheme};
    p.visibility.causal = content.causal_only;
    for (const DType dtype : kEveryDtype) expect_as_reference(p, dtype, content.name);
    for (std::int64_t n = 0; n < 2 * shape.queries; ++n) p.query_positions.push_back((n * 37) % 71);
    for (std::int64_t n = 0; n < 2 * shape.keys; ++n) p.key_positions.push_back((n * 71) % 83);
    expect_as_reference(p, DType::f64, content.name + " at positions in any order");
  }
}

TEST(attention_content, xpos_knows_no_position_that_is_too_far) {
  ref::Problem p = random_problem({.queries = 70, .keys = 130, .width = 10, .value_width = 6}, 9);
  p.schemes = {ref::Xpos{.ladder = {.base = 50}}};
  p.visibility.causal = true;
  Bridge near(p, DType::f32);
  ASSERT_TRUE(near.forward().ok());
  for (std::int64_t n = 0; n < p.shape.queries; ++n) p.query_positions.push_back(n + 60 + (std::int64_t{1} << 40));
  for (std::int64_t n = 0; n < p.shape.keys; ++n) p.key_positions.push_back(n + (std::int64_t{1} << 40));
  Bridge far(p, DType::f32);
  ASSERT_TRUE(far.forward().ok());
  EXPECT_LE(far_apart(far.output().out, near.output().out), 1e-5);
}

// ---- Rotating inside is rotating before, bit for bit: whatever a rotary can be ----

struct NamedRotary {
  std::string name;
  RotarySpec spec;
};
std::vector<NamedRotary> rotaries() {
  return {{"all", {.head_dim = 16}},
          {"64 channels", {.head_dim = 64}},  // as matrix units want them
          {"part", {.head_dim = 16, .rotary_width = 8, .rotary_offset = 4}},
          {"interleaved", {.head_dim = 16, .pairing = Pairing::interleaved}},
          {"other pairing", {.head_dim = 16, .pairing = Pairing::interleaved, .output_pairing = Pairing::half}},
          {"yarn", {.head_dim = 16, .scaling = YarnScaling{.factor = 4, .original_length = 64}}},
          {"three axes", {.head_dim = 16, .axes = {.sections = {2, 3, 3}}}},
          {"hf", {.head_dim = 16, .numerics = Numerics::hf}},
          {"vllm", {.head_dim = 16, .numerics = Numerics::vllm}}};
}

/// Grouped heads; few queries (decoding) and many.
struct RotatedTwice {
  std::int64_t queries;
  ref::Visibility see;
  bool placed;       // positions are given, in no order
  bool keys_before;  // inside of the call, too, keys come rotated
};

void expect_same_as_rotated_before(const NamedRotary& one, DType dtype, const RotatedTwice& how) {
  const std::string name = one.name + ", " + name_of(dtype) + ", " + std::to_string(how.queries) + (how.placed ? ", placed" : "");
  const ref::Shape shape{
      .batch = 2, .queries = how.queries, .keys = 110, .heads = 4, .key_heads = 2, .width = one.spec.head_dim, .value_width = 32};
  std::vector<std::int64_t> places(static_cast<std::size_t>(3 * 2 * (shape.queries + shape.keys)));
  for (std::size_t n = 0; n < places.size(); ++n) places[n] = static_cast<std::int64_t>((n * n) % 97);
  const std::int64_t axes = one.spec.axes.sections.empty() ? 1 : 3;
  Positions of_q = positions(std::as_const(places).data(), axes, 2, shape.queries);
  Positions of_k = positions(std::as_const(places).data() + 3 * 2 * shape.queries, axes, 2, shape.keys);
  if (!how.placed) of_q = positions_from(shape.keys - shape.queries), of_k = positions_from(0);
  const Rotary rotary = expect_ok(Rotary::make(one.spec));
  ref::Problem p = random_problem(shape, 15);
  p.visibility = how.see;
  Bridge inside(p, dtype);
  Bridge before(p, dtype);
  inside.spec.content = RotaryContent{rotary, how.keys_before ? KeyState::rotated : KeyState::unrotated};
  for (Bridge* const bridge : {&inside, &before}) {
    if (how.placed) bridge->spec.query_positions = of_q, bridge->spec.key_positions = of_k;
  }
  if (axes > 1 && how.placed) {  // distances go by the first
    before.spec.query_positions = positions(std::as_const(places).data(), 2, shape.queries);
    before.spec.key_positions = positions(std::as_const(places).data() + 3 * 2 * shape.queries, 2, shape.keys);
  }
  const auto in_place = [](const ConstTensorView& v) { return TensorView{const_cast<void*>(v.data), v.dtype, v.shape, v.strides}; };
  expect_ok(rotary.apply(in_place(before.inputs.q), of_q));
  expect_ok(rotary.apply(in_place(before.inputs.k), of_k));
  if (how.keys_before) expect_ok(rotary.apply(in_place(inside.inputs.k), of_k));
  expect_ok(inside.forward());
  expect_ok(before.forward());
  EXPECT_EQ(inside.output().out, before.output().out) << name;
  EXPECT_EQ(inside.output().lse, before.output().lse) << name;
  Bridge plain(p, dtype);
  expect_ok(plain.forward());
  EXPECT_NE(inside.output().out, plain.output().out) << name;
}

TEST(attention_content, rotating_inside_is_rotating_before) {
  const RotatedTwice ways[] = {{.queries = 100, .see = {}, .placed = true, .keys_before = false},
                               {.queries = 100, .see = {.causal = true}, .placed = false, .keys_before = false},
                               {.queries = 30, .see = {.left = 40, .right = 8}, .placed = true, .keys_before = true},
                               {.queries = 3, .see = {.causal = true, .left = 60}, .placed = false, .keys_before = false},
                               {.queries = 1, .see = {.causal = true}, .placed = false, .keys_before = true}};
  for (const NamedRotary& one : rotaries()) {
    for (const RotatedTwice& how : ways) {
      if (!one.spec.axes.sections.empty() && !how.placed) continue;
      for (const DType dtype : kEveryDtype) expect_same_as_rotated_before(one, dtype, how);
    }
  }
}

/// A profile rounds what it rotates, and its cosines; gradients are those of the rotation that is meant.
TEST(attention_content, gradients_of_a_profile_are_near_the_reference) {
  const auto apart = [](const ref::Values& is, const ref::Values& wanted) {
    double off = 0, all = 0;
    for (std::size_t n = 0; n < is.size(); ++n) off += (is[n] - wanted[n]) * (is[n] - wanted[n]), all += wanted[n] * wanted[n];
    return std::sqrt(off / all);
  };
  ref::Problem p = random_problem({.batch = 2, .queries = 30, .keys = 50, .heads = 4, .key_heads = 2, .width = 16, .value_width = 8}, 16);
  p.schemes = {ref::Rope{}};
  for (const DType dtype : {DType::f16, DType::bf16}) {
    Bridge bridge(p, dtype);
    bridge.spec.content = RotaryContent{expect_ok(Rotary::make({.head_dim = 16, .numerics = Numerics::hf}))};
    Wanted wanted(bridge.problem, dtype);
    expect_ok(bridge.forward());
    expect_ok(bridge.backward(wanted.out_gradient, wanted.lse_gradient));
    const ref::Gradients is = bridge.reference_gradients();
    const double close = dtype == DType::bf16 ? 0x1p-6 : 0x1p-9;  // cosines, products and results are rounded to the dtype
    EXPECT_LE(apart(is.q, wanted.gradients.q), close) << name_of(dtype);
    EXPECT_LE(apart(is.k, wanted.gradients.k), close) << name_of(dtype);
  }
}

TEST(attention_content, any_runner_gives_the_same_bits) {
  const Runner backwards{.run = [](void*, std::int64_t tasks, void (*task)(void*, std::int64_t), void* context) {
    for (std::int64_t n = tasks; n-- > 0;) task(context, n);
  }};
  for (const std::int64_t queries : {3, 200}) {
    ref::Problem p =
        random_problem({.batch = 2, .queries = queries, .keys = 1300, .heads = 4, .key_heads = 2, .width = 16, .value_width = 16}, 10);
    p.visibility.causal = true;
    p.schemes = {ref::Rope{}};
    Bridge one(p, DType::f32);
    Bridge two(p, DType::f32);
    two.spec.execution.runner = backwards;
    ASSERT_TRUE(one.forward().ok() && two.forward().ok());
    EXPECT_EQ(one.output().out, two.output().out);
    EXPECT_EQ(one.output().lse, two.output().lse);
  }
}

TEST(attention_content, no_keys_and_no_queries_are_no_error) {
  for (const auto& [batch, queries, keys, heads] : {std::array{1, 3, 0, 2}, {1, 0, 5, 2}, {0, 3, 5, 2}, {1, 3, 5, 0}, {0, 0, 0, 0}}) {
    ref::Problem p = random_problem(
        {.batch = batch, .queries = queries, .keys = keys, .heads = heads, .key_heads = heads, .width = 4, .value_width = 3}, 11);
    Bridge bridge(p, DType::f32);
    const Status status = bridge.forward();
    ASSERT_TRUE(status.ok()) << status.message();
    for (const double x : bridge.output().out) EXPECT_EQ(x, 0);
    for (const double x : bridge.output().lse) EXPECT_EQ(x, -INFINITY);
  }
}

}  // namespace
}  // namespace phasor::test
