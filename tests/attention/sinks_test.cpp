// SPDX-License-Identifier: Apache-2.0
// Sinks: the reference against an extra key and against differences, then the library against the reference: every dtype, mask, shape and
// target, queries that see nothing, decoding, packed sequences, parts that are merged, and numbers that are none.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "attention/support/compare.hpp"
#include "attention/support/every_target.hpp"
#include "attention/support/finite_differences.hpp"
#include "attention/support/held.hpp"

namespace phasor::test {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr ref::Shape kSmall{.batch = 2, .queries = 3, .keys = 5, .heads = 4, .key_heads = 2, .width = 4, .value_width = 2};
constexpr std::initializer_list<DType> kEveryDType = {DType::f64, DType::f32, DType::f16, DType::bf16};

/// One for each head, on either side of what scores are.
ref::Problem with_sinks(ref::Problem p, std::uint64_t seed = 9) {
  p.sinks = Numbers(seed).values(p.shape.heads, -2, 4);
  return p;
}
ref::Problem sink_problem(const ref::Shape& shape, std::uint64_t seed = 3) { return with_sinks(random_problem(shape, seed)); }

// ---- The reference ----

/// The sink as a key: zeros that meet every query at a bias of the sink, with a value of zeros.
ref::Problem with_a_key_for_the_sink(const ref::Problem& p) {
  ref::Problem more = p;
  const ref::Shape& s = p.shape;
  more.shape.keys = s.keys + 1;
  more.sinks = {};
  more.k = ref::Values(static_cast<std::size_t>(s.batch * (s.keys + 1) * s.key_heads * s.width), 0);
  more.v = ref::Values(static_cast<std::size_t>(s.batch * (s.keys + 1) * s.key_heads * s.value_width), 0);
  for (std::int64_t b = 0; b < s.batch; ++b) {
    std::copy_n(p.k.begin() + b * s.keys * s.key_heads * s.width, s.keys * s.key_heads * s.width,
                more.k.begin() + b * (s.keys + 1) * s.key_heads * s.width);
    std::copy_n(p.v.begin() + b * s.keys * s.key_heads * s.value_width, s.keys * s.key_heads * s.value_width,
                more.v.begin() + b * (s.keys + 1) * s.key_heads * s.value_width);
  }
  ref::Dense bias{.extents = {1, s.heads, 1, s.keys + 1}, .bias = ref::Values(static_cast<std::size_t>(s.heads * (s.keys + 1)), 0)};
  for (std::int64_t h = 0; h < s.heads; ++h)
    bias.bias[static_cast<std::size_t>(h * (s.keys + 1) + s.keys)] = p.sinks[static_cast<std::size_t>(h)];
  more.schemes = {bias};
  return more;
}

TEST(attention_reference_sinks, are_as_a_key_of_no_value) {
  const ref::Problem p = sink_problem(kSmall);
  const ref::Problem more = with_a_key_for_the_sink(p);
  expect_same(ref::forward(p), ref::forward(more), "a key for the sink");
  const Loss loss(p, 5);
  const ref::Gradients is = ref::backward(p, loss.out, loss.lse);
  const ref::Gradients wanted = ref::backward(more, loss.out, loss.lse);
  EXPECT_LE(apart(is.q, wanted.q), kSameTolerance);
  for (std::int64_t h = 0; h < kSmall.heads; ++h) {
    const double of_key = std::get<ref::Dense>(wanted.schemes[0]).bias[static_cast<std::size_t>(h * 6 + 5)];
    EXPECT_NEAR(is.sinks[static_cast<std::size_t>(h)], of_key, kSameTolerance) << h;
  }
}

TEST(attention_reference_sinks, have_the_gradients_of_differences) {
  const auto expect = [](const ref::Problem& p, const std::string& name) {
    const Loss loss(p, 99);
    const Comparison c = compare_with_differences(p, ref::backward(p, loss.out, loss.lse), loss);
    EXPECT_LE(c.worst, kDifferenceTolerance) << name << " " << c.where;
    EXPECT_TRUE(c.silent.empty()) << name << ": " << c.silent.front() << " has no gradient";
  };
  ref::Problem p = sink_problem(kSmall);
  expect(p, "plain");
  p.softcap = 0.8;
  expect(p, "softcap");
  p.visibility.causal = true;
  p.query_positions = {-1, 2, 4, 0, 1, 2};  // the first sees nothing
  expect(p, "causal");
  p.sinks = {0.3};
  expect(p, "shared");
}

// ---- The library ----

TEST(attention_sinks, are_the_reference_with_every_mask_shape_and_dtype) {
  const std::vector<DType> dtypes = kEveryDType;
  std::size_t turn = 0;
  for (const ref::Shape& shape : edge_shapes()) {
    for (const NamedMask& mask : every_mask(shape)) {  // nine shapes and nine masks: each of them meets every dtype
      ref::Problem p = sink_problem(shape);
      p.visibility = mask.visibility;
      expect_as_reference(p, dtypes[turn++ % 4], mask.name + ", " + std::to_string(shape.queries) + " x " + std::to_string(shape.keys));
    }
  }
}

TEST(attention_sinks, are_the_reference_beside_every_scheme) {
  const ref::Shape shape{.batch = 2, .queries = 6, .keys = 8, .heads = 2, .key_heads = 1, .width = 4, .value_width = 3};
  for (const NamedScheme& one : every_scheme(shape, 4)) {
    const auto* xpos = std::get_if<ref::Xpos>(&one.scheme);
    if (xpos != nullptr && xpos->keys_rotated) continue;  // the library does not have it
    ref::Problem p = sink_problem(shape);
    p.visibility.causal = one.causal_only || std::holds_alternative<ref::Cope>(one.scheme);
    p.schemes = {one.scheme};
    expect_as_reference(p, one.name);
    p.softcap = 1.5;
    expect_as_reference(p, DType::f32, one.name + " with a soft cap");
  }
}

TEST(attention_sinks, are_the_reference_on_every_target) {
  ref::Problem p = sink_problem({.batch = 1, .queries = 100, .keys = 130, .heads = 2, .key_heads = 1, .width = 20, .value_width = 24});
  p.visibility.causal = true;
  for (std::int64_t i = 0; i < 100; ++i) p.query_positions.push_back(i * 37 % 130 - 2);  // in any order, some before every key
  expect_on_every_target(p, "sinks");
}

TEST(attention_sinks, decode_as_the_reference_on_every_target) {
  for (const std::string_view target : targets()) {
    ASSERT_TRUE(force_target(target).ok());
    for (const std::int64_t keys : {1, 64, 65, 700}) {
      for (const std::int64_t queries : {1, 3}) {
        ref::Problem p =
            sink_problem({.batch = 2, .queries = queries, .keys = keys, .heads = 6, .key_heads = 2, .width = 48, .value_width = 32});
        for (const DType dtype : kEveryDType) expect_forward(p, dtype, std::string(target) + ", " + std::to_string(keys) + " keys");
        p.visibility.left = -1;  // of later keys only: the last query sees nothing
        for (const DType dtype : {DType::f32, DType::bf16}) expect_forward(p, dtype, "later keys, " + std::to_string(keys));
      }
    }
  }
  ASSERT_TRUE(force_target("").ok());
}

/// Widths that the matrix unit takes, where there is one.
TEST(attention_sinks, are_the_reference_in_the_matrix_unit) {
  ref::Problem p = sink_problem({.batch = 1, .queries = 150, .keys = 200, .heads = 4, .key_heads = 2, .width = 64, .value_width = 32});
  expect_as_reference(p, DType::bf16, "full");
  p.visibility = {.causal = true, .left = 20};
  expect_as_reference(p, DType::bf16, "window");
  p.visibility = {.left = -60, .right = 200};  // the first queries see no key
  expect_as_reference(p, DType::bf16, "blind queries");
}

TEST(attention_sinks, are_the_reference_over_packed_sequences) {
  ref::Problem p = sink_problem({.batch = 1, .queries = 113, .keys = 120, .heads = 4, .key_heads = 2, .width = 6, .value_width = 5});
  p.visibility.query_starts = {0, 3, 3, 8, 108, 113};  // one without queries, one without keys, one that is longer than a tile
  p.visibility.key_starts = {0, 7, 15, 15, 115, 120};
  for (const DType dtype : kEveryDType) expect_as_reference(p, dtype, "packed");
  p.visibility.causal = true;
  p.sinks = {0.5};
  expect_as_reference(p, "packed, causal, shared");
  expect_same_bits_by_any_runner(p, "packed, causal, shared");
}

TEST(attention_sinks, have_the_same_bits_by_any_runner) {
  ref::Problem p = sink_problem({.batch = 2, .queries = 230, .keys = 150, .heads = 4, .key_heads = 2, .width = 8, .value_width = 8});
  expect_same_bits_by_any_runner(p, "a sink per head");
  p.sinks = {1};
  expect_same_bits_by_any_runner(p, "a shared sink");
}

TEST(attention_sinks, far_above_and_far_below_every_score) {
  for (const double far : {-300.0, -30.0, 17.0, 30.0, 300.0}) {
    ref::Problem p = random_problem(kSmall, 3);
    p.sinks = {far, -far, far + 1, 0};
    expect_as_reference(p, std::to_string(far));
    expect_as_reference(p, DType::bf16, std::to_string(far));
  }
}

TEST(attention_sinks, of_minus_infinity_are_none_to_the_bit) {
  for (const std::int64_t queries : {2, 40}) {
    ref::Problem p =
        random_problem({.batch = 2, .queries = queries, .keys = 70, .heads = 2, .key_heads = 1, .width = 8, .value_width = 5}, 3);
    p.visibility.left = 4;  // some see nothing
    Bridge without(p, DType::f32);
    p.sinks = {-kInfinity};
    Bridge with(p, DType::f32);
    const Loss loss(p, 4);
    for (Bridge* one : {&without, &with}) {
      ASSERT_TRUE(one->forward().ok());
      ASSERT_TRUE(one->backward(loss.out, loss.lse).ok());
    }
    EXPECT_EQ(with.output().out, without.output().out);
    EXPECT_EQ(with.output().lse, without.output().lse);
    const ref::Gradients is = with.reference_gradients();
    const ref::Gradients wanted = without.reference_gradients();
    EXPECT_EQ(is.q, wanted.q);
    EXPECT_EQ(is.k, wanted.k);
    EXPECT_EQ(is.v, wanted.v);
    EXPECT_EQ(is.sinks, ref::Values{0});
  }
}

TEST(attention_sinks, that_are_no_numbers_or_infinite) {
  for (const std::int64_t keys : {0, 5}) {
    ref::Problem p = random_problem({.batch = 1, .queries = 2, .keys = keys, .heads = 3, .key_heads = 1, .width = 4, .value_width = 2}, 3);
    p.sinks = {NAN, kInfinity, 0.5};
    Bridge bridge(p, DType::f32);
    ASSERT_TRUE(bridge.forward().ok());
    const ref::Output is = bridge.output();  // out (B, Tq, H, Dv), lse (B, H, Tq)
    EXPECT_TRUE(std::isnan(is.lse[0]));
    EXPECT_TRUE(std::isnan(is.out[0]));
    EXPECT_EQ(is.lse[2], kInfinity);  // nothing is left for any key
    EXPECT_EQ(is.out[2], 0);
    EXPECT_TRUE(std::isfinite(is.lse[4]));
    EXPECT_EQ(is.out[4] == 0, keys == 0);
  }
}

TEST(attention_sinks, are_lse_where_there_is_no_key) {
  ref::Problem p = sink_problem({.batch = 2, .queries = 100, .keys = 0, .heads = 3, .key_heads = 1, .width = 4, .value_width = 2});
  for (const DType dtype : kEveryDType) expect_as_reference(p, dtype, "no keys");
  Bridge bridge(p, DType::f32);
  ASSERT_TRUE(bridge.forward().ok());
  for (std::size_t n = 0; n < 600; ++n) EXPECT_EQ(bridge.output().lse[n], bridge.problem.sinks[n / 100 % 3]);
}

/// Memory of queries that see nothing, q and the gradient by their outputs, may be anything.
TEST(attention_sinks, queries_that_see_no_key_may_be_no_numbers) {
  ref::Problem p = sink_problem({.batch = 1, .queries = 20, .keys = 30, .heads = 2, .key_heads = 1, .width = 8, .value_width = 6});
  p.visibility.causal = true;
  for (std::int64_t i = 0; i < 20; ++i) p.query_positions.push_back(i % 4 == 0 ? -1 : i);
  Loss loss(p, 4);
  for (const DType dtype : {DType::f64, DType::f32}) {
    ref::Problem none = p;
    ref::Values out_gradient = loss.out;
    for (std::size_t n = 0; n < none.q.size(); ++n) none.q[n] = n / (2 * 8) % 4 == 0 ? NAN : none.q[n];
    for (std::size_t n = 0; n < out_gradient.size(); ++n) out_gradient[n] = n / (2 * 6) % 4 == 0 ? NAN : out_gradient[n];
    Bridge wanted(p, dtype);
    Bridge bridge(none, dtype);
    ASSERT_TRUE(wanted.forward().ok() && wanted.backward(loss.out, loss.lse).ok());
    ASSERT_TRUE(bridge.forward().ok() && bridge.backward(out_gradient, loss.lse).ok());
    EXPECT_EQ(bridge.output().out, wanted.output().out);
    EXPECT_EQ(bridge.output().lse, wanted.output().lse);
    EXPECT_EQ(bridge.reference_gradients().k, wanted.reference_gradients().k);
    EXPECT_EQ(bridge.reference_gradients().v, wanted.reference_gradients().v);
    EXPECT_EQ(bridge.reference_gradients().sinks, wanted.reference_gradients().sinks);
  }
}

TEST(attention_sinks, have_gradients_by_themselves_that_are_added) {
  const ref::Problem p = sink_problem({.batch = 2, .queries = 100, .keys = 90, .heads = 4, .key_heads = 2, .width = 8, .value_width = 6});
  Bridge bridge(p, DType::f32);
  Wanted wanted(bridge.problem, DType::f32);
  std::vector<double> sums(8, 100);
  bridge.gradients = {.sinks = {sums.data(), DType::f64, {1, 1, 4, 1}, {0, 0, 2, 0}}};
  ASSERT_TRUE(bridge.forward().ok());
  ASSERT_TRUE(bridge.backward(wanted.out_gradient, wanted.lse_gradient).ok());
  for (std::size_t h = 0; h < 4; ++h) {
    EXPECT_NEAR(sums[2 * h], 100 + wanted.gradients.sinks[h], 1e-4);
    EXPECT_EQ(sums[2 * h + 1], 100);
  }
}

TEST(attention_sinks, of_any_dtype_and_stride) {
  ref::Problem p = random_problem(kSmall, 3);
  p.sinks = {0.5, -1, 2, 1.5};  // exact in every dtype
  Bridge wanted(p, DType::bf16);
  ASSERT_TRUE(wanted.forward().ok());
  for (const DType dtype : kEveryDType) {
    Bridge bridge(p, DType::bf16);
    Numbered held(12, dtype);
    held.set({0, 0, 1.5, 0, 0, 2, 0, 0, -1, 0, 0, 0.5});
    bridge.spec.sinks = held.view({{1, 1, 4, 1}, {0, 0, -3, 7}, 11});
    ASSERT_TRUE(bridge.forward().ok());
    EXPECT_EQ(bridge.output().out, wanted.output().out) << name_of(dtype);
    EXPECT_EQ(bridge.output().lse, wanted.output().lse) << name_of(dtype);
  }
}

TEST(attention_sinks, leave_a_certified_skip_right) {
  for (const double sink : {-20.0, 0.0, 20.0}) {
    ref::Problem p = random_problem({.batch = 1, .queries = 120, .keys = 900, .heads = 2, .key_heads = 1, .width = 8, .value_width = 6}, 3);
    p.visibility.causal = true;
    p.schemes = {ref::Alibi{{0.5, 0.25}, ref::AlibiForm::causal}};
    p.sinks = {sink};
    Bridge bridge(p, DType::f32);
    bridge.spec.skip = TileSkip::certified;
    ASSERT_TRUE(bridge.forward().ok());
    expect_output(bridge.output(), ref::forward(bridge.problem), ref::magnitudes(bridge.problem), {p.shape, DType::f32},
                  "certified, sink " + std::to_string(sink));
  }
}

TEST(attention_sinks, belong_to_one_of_the_parts_that_are_merged) {
  const ref::Shape shape{.batch = 2, .queries = 20, .keys = 150, .heads = 4, .key_heads = 2, .width = 8, .value_width = 7};
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16}) {
    const ref::Problem p = sink_problem(shape);
    ref::Problem later = with_keys(p, 70, 150);
    later.sinks = {};
    Bridge one(with_keys(p, 0, 70), dtype);
    Bridge two(later, dtype);
    ASSERT_TRUE(one.forward().ok() && two.forward().ok());
    Bridge whole(p, dtype);
    const AttentionPart parts[] = {{one.outputs.out, one.outputs.lse}, {two.outputs.out, two.outputs.lse}};
    ASSERT_TRUE(merge_attention(parts, whole.outputs).ok());
    expect_output(whole.output(), ref::forward(whole.problem), ref::magnitudes(whole.problem), {shape, dtype, 1}, name_of(dtype));
  }
}

// ---- What is refused, and what is said ----

TEST(attention_sinks, that_do_not_fit_are_refused) {
  std::vector<float> memory(64, 0);
  const auto message = [&](const TensorView& sinks) {
    Bridge bridge(random_problem(kSmall, 3), DType::f32);
    bridge.spec.sinks = sinks;
    const std::string measured = attention_workspace(bridge.inputs, bridge.spec).status().message();
    EXPECT_EQ(failure_of(bridge), measured);
    return measured;
  };
  EXPECT_EQ(message(view(memory.data(), {1, 1, 3, 1})), "attention: sinks has shape (1, 1, 3, 1), wanted (1, 1, 4 or 1, 1)");
  EXPECT_EQ(message(view(memory.data(), {1, 1, 4, 2})), "attention: sinks has shape (1, 1, 4, 2), wanted (1, 1, 4 or 1, 1)");
  EXPECT_EQ(message(view(memory.data(), {2, 1, 4, 1})), "attention: sinks has shape (2, 1, 4, 1), wanted (1, 1, 4 or 1, 1)");
  EXPECT_EQ(message(view(memory.data(), {4, 1, 1, 1})), "attention: sinks has shape (4, 1, 1, 1), wanted (1, 1, 4 or 1, 1)");
  EXPECT_EQ(message({nullptr, DType::f32, {1, 1, 4, 1}, {4, 4, 1, 1}}),
            "attention: sinks has null data and 1 x 1 x 4 x 1 elements, wanted memory");
  EXPECT_EQ(message({memory.data(), DType::f32, {1, 1, 4, 1}, {4, 4, 1, 1}, {DeviceKind::cuda, 0}}),
            "attention: sinks is on cuda:0, wanted cpu, where the call's first tensor is");
}

TEST(attention_sinks, in_memory_that_is_written_are_refused) {
  Bridge bridge(sink_problem(kSmall), DType::f32);
  bridge.spec.sinks.data = bridge.outputs.out.data;
  EXPECT_EQ(failure_of(bridge), "attention: out overlaps sinks, wanted memory apart");
}

TEST(attention_sinks, gradients_that_do_not_fit_are_refused) {
  const auto message = [](const auto& change) {
    Bridge bridge(sink_problem(kSmall), DType::f32);
    EXPECT_TRUE(bridge.forward().ok());
    change(bridge);
    const Loss loss(bridge.problem, 4);
    return bridge.backward(loss.out).message();
  };
  EXPECT_EQ(message([](Bridge& b) { b.spec.sinks = {}; }), "attention_backward: gradients.sinks is given, wanted sinks, too");
  EXPECT_EQ(message([](Bridge& b) { b.gradients.sinks.shape[2] = 1; }),
            "attention_backward: gradients.sinks has shape (1, 1, 1, 1), wanted (1, 1, 4, 1)");
  EXPECT_EQ(message([](Bridge& b) { b.gradients.sinks.dtype = DType::bf16; }),
            "attention_backward: gradients.sinks is bf16, wanted f32 or f64");
  EXPECT_EQ(message([](Bridge& b) { b.gradients.sinks.data = nullptr; }),
            "attention_backward: gradients.sinks has null data and 1 x 1 x 4 x 1 elements, wanted memory");
  EXPECT_EQ(message([](Bridge& b) { b.gradients.sinks.strides[2] = 0; }),
            "attention_backward: gradients.sinks has strides by which elements overlap, wanted each element once");
  EXPECT_EQ(message([](Bridge& b) { b.gradients.sinks.data = const_cast<void*>(b.spec.sinks.data); }),
            "attention_backward: gradients.sinks overlaps sinks, wanted memory apart");
  EXPECT_EQ(message([](Bridge& b) { b.gradients.sinks.data = b.gradients.q.data; }),
            "attention_backward: gradients.sinks overlaps gradients.q, wanted memory apart");
  EXPECT_EQ(message([](Bridge& b) { b.gradients.sinks.device = {DeviceKind::cuda, 0}; }),
            "attention_backward: gradients.sinks is on cuda:0, wanted cpu, where the call's first tensor is");
}

TEST(attention_sinks, are_explained) {
  const ref::Problem p = random_problem(kSmall, 3);
  Bridge without(p, DType::f32);
  Bridge with(with_sinks(p), DType::f32);
  const AttentionReport is = expect_ok(explain_attention(with.inputs, with.spec));
  const AttentionReport wanted = expect_ok(explain_attention(without.inputs, without.spec));
  EXPECT_EQ(is.bytes, wanted.bytes + 4 * 4);
  EXPECT_EQ(is.words.substr(is.words.size() - 67), "\nsinks: a logit per head takes part in the softmax, once per query\n");
  EXPECT_EQ(wanted.words.find("sinks"), std::string::npos);
}

}  // namespace
}  // namespace phasor::test
