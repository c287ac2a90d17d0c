// SPDX-License-Identifier: Apache-2.0
// float32 results of 16-bit inputs: they are what is rounded otherwise, to the bit; they are as near to the reference as float32 is; and
// parts that are merged lose nothing.
#include <gtest/gtest.h>

#include "attention/support/compare.hpp"
#include "attention/support/finite_differences.hpp"
#include "attention/support/held.hpp"

namespace phasor::test {
namespace {

constexpr DType kNarrow[] = {DType::f16, DType::bf16};

/// A call of 16-bit inputs whose results are float32.
struct Wide {
  Wide(const ref::Problem& p, DType dtype) : bridge(p, dtype), narrow(bridge.outputs), narrow_gradients(bridge.gradients) {
    bridge.outputs.out = make(narrow.out.shape, out);
    bridge.gradients.q = make(bridge.inputs.q.shape, q);
    bridge.gradients.k = make(bridge.inputs.k.shape, k);
    bridge.gradients.v = make(bridge.inputs.v.shape, v);
  }
  /// Whatever flows in is float32, too; (B, Tq, H, Dv) and (B, H, Tq).
  Status backward(const ref::Values& out_gradient, const ref::Values& lse_gradient) {
    std::vector<float> flows(out_gradient.begin(), out_gradient.end());
    std::vector<float> flows_lse(lse_gradient.begin(), lse_gradient.end());
    ConstTensorView of_lse = bridge.outputs.lse;
    of_lse.data = flows_lse.data();
    const AttentionSaved saved{bridge.outputs.out, bridge.outputs.lse, view(std::as_const(flows).data(), bridge.outputs.out.shape), of_lse};
    std::vector<std::byte> workspace(
        static_cast<std::size_t>(expect_ok(attention_backward_workspace(bridge.inputs, bridge.spec, bridge.gradients))));
    return attention_backward(bridge.inputs, bridge.spec, saved, bridge.gradients, workspace);
  }
  ref::Gradients gradients() {
    ref::Gradients all = bridge.reference_gradients();
    all.q.assign(q.begin(), q.end());
    all.k.assign(k.begin(), k.end());
    all.v.assign(v.begin(), v.end());
    return all;
  }
  static TensorView make(const Extents& shape, std::vector<float>& memory) {
    memory.assign(static_cast<std::size_t>(shape[0] * shape[1] * shape[2] * shape[3]), 0);
    return view(memory.data(), shape);
  }

  Bridge bridge;
  AttentionOutputs narrow;  // the bridge's own
  AttentionGradients narrow_gradients;
  std::vector<float> out, q, k, v;
};

ref::Values all_rounded(ref::Values values, DType dtype) {
  round_all(values, dtype);
  return values;
}

/// Decoding, tiles with rests, and widths that the matrix unit takes where there is one.
std::vector<ref::Problem> problems() {
  std::vector<ref::Problem> list;
  for (const auto& [queries, width] : {std::pair{3, 10}, {110, 10}, {110, 64}}) {
    ref::Problem p = random_problem(
        {.batch = 2, .queries = queries, .keys = 130, .heads = 4, .key_heads = 2, .width = width, .value_width = width == 10 ? 7 : 32}, 5);
    p.visibility = {.causal = true, .left = 90};
    p.sinks = {0.25, -1, 2, 0};
    list.push_back(p);
  }
  return list;
}

TEST(attention_wide_results, rounded_are_the_narrow_ones_to_the_bit) {
  for (const ref::Problem& p : problems()) {
    for (const DType dtype : kNarrow) {
      Wide wide(p, dtype);
      Bridge narrow(p, dtype);
      ASSERT_TRUE(wide.bridge.forward().ok());
      ASSERT_TRUE(narrow.forward().ok());
      EXPECT_EQ(all_rounded(wide.bridge.output().out, dtype), narrow.output().out) << name_of(dtype);
      EXPECT_NE(wide.bridge.output().out, narrow.output().out);
      EXPECT_EQ(wide.bridge.output().lse, narrow.output().lse) << name_of(dtype);
    }
  }
}

TEST(attention_wide_results, gradients_rounded_are_the_narrow_ones_to_the_bit) {
  for (ref::Problem p : problems()) {
    for (const bool rotated : {false, true}) {
      if (rotated) p.schemes = {ref::Rope{}};
      for (const DType dtype : kNarrow) {
        const Loss loss(p, 3);
        Bridge narrow(p, dtype);
        ASSERT_TRUE(narrow.forward().ok());
        ASSERT_TRUE(narrow.backward(loss.out, loss.lse).ok());
        Wide wide(p, dtype);
        wide.bridge.outputs = wide.narrow;  // what was saved has 16 bits, as the other's
        ASSERT_TRUE(wide.bridge.forward().ok());
        ASSERT_TRUE(wide.bridge.backward(loss.out, loss.lse).ok());
        const ref::Gradients is = wide.gradients();
        const ref::Gradients other = narrow.reference_gradients();
        EXPECT_EQ(all_rounded(is.q, dtype), other.q) << name_of(dtype);
        EXPECT_EQ(all_rounded(is.k, dtype), other.k) << name_of(dtype);
        EXPECT_EQ(all_rounded(is.v, dtype), other.v) << name_of(dtype);
        EXPECT_NE(is.q, other.q);
        EXPECT_EQ(is.sinks, other.sinks);
      }
    }
  }
}

/// Inputs are the reference's numbers, and nothing is rounded to 16 bits after them: held as float32 is.
TEST(attention_wide_results, are_the_reference_within_the_rounding_of_float32) {
  for (const ref::Problem& p : problems()) {
    if (p.shape.width == 64) continue;  // the matrix unit has weights of two bf16 numbers
    for (const DType dtype : kNarrow) {
      Wide wide(p, dtype);
      Wanted wanted(wide.bridge.problem, DType::f32);
      const HeldAs as{p.shape, DType::f32};
      ASSERT_TRUE(wide.bridge.forward().ok());
      expect_output(wide.bridge.output(), wanted.output, wanted.magnitudes, as, name_of(dtype));
      const Status status = wide.backward(wanted.out_gradient, wanted.lse_gradient);
      ASSERT_TRUE(status.ok()) << status.message();
      ref::Gradients is = wide.gradients();
      expect_gradients(is, wanted, as, name_of(dtype));
    }
  }
}

TEST(attention_wide_results, of_no_keys_are_zeros) {
  Wide wide(random_problem({.batch = 1, .queries = 3, .keys = 0, .heads = 2, .key_heads = 1, .width = 4, .value_width = 5}, 1),
            DType::bf16);
  wide.out.assign(wide.out.size(), 7);
  ASSERT_TRUE(wide.bridge.forward().ok());
  EXPECT_EQ(wide.out, std::vector<float>(30, 0));
}

TEST(attention_wide_results, merged_lose_nothing_before_the_last_rounding) {
  const ref::Shape shape{.batch = 2, .queries = 20, .keys = 150, .heads = 4, .key_heads = 2, .width = 8, .value_width = 70};
  const ref::Problem p = random_problem(shape, 1);
  for (const DType dtype : kNarrow) {
    Wide one(with_keys(p, 0, 70), dtype);
    Wide two(with_keys(p, 70, 150), dtype);
    ASSERT_TRUE(one.bridge.forward().ok() && two.bridge.forward().ok());
    const AttentionPart parts[] = {{one.bridge.outputs.out, one.bridge.outputs.lse}, {two.bridge.outputs.out, two.bridge.outputs.lse}};
    Bridge narrow(p, dtype);
    Wide wide(p, dtype);
    ASSERT_TRUE(merge_attention(parts, narrow.outputs).ok());
    ASSERT_TRUE(merge_attention(parts, wide.bridge.outputs).ok());
    const ref::Output wanted = ref::forward(narrow.problem);
    const ref::Magnitudes magnitudes = ref::magnitudes(narrow.problem);
    expect_output(narrow.output(), wanted, magnitudes, {shape, dtype}, name_of(dtype));
    expect_output(wide.bridge.output(), wanted, magnitudes, {shape, DType::f32, 1}, name_of(dtype));
    EXPECT_EQ(all_rounded(wide.bridge.output().out, dtype), narrow.output().out) << name_of(dtype);
  }
}

// ---- What is refused ----

TEST(attention_wide_results, of_any_other_dtype_are_refused) {
  const ref::Problem p = random_problem({.batch = 1, .queries = 3, .keys = 4, .heads = 2, .key_heads = 1, .width = 8, .value_width = 6}, 1);
  const auto message = [&](DType inputs, const auto& change) {
    Wide wide(p, inputs);
    if (inputs == DType::f64) wide.bridge.outputs = wide.narrow, wide.bridge.gradients = wide.narrow_gradients;
    EXPECT_TRUE(wide.bridge.forward().ok());
    change(wide.bridge);
    const Status forward = wide.bridge.forward();
    return forward.ok() ? wide.bridge.backward(ref::Values(36, 1)).message() : forward.message();
  };
  EXPECT_EQ(message(DType::bf16, [](Bridge& b) { b.outputs.out.dtype = DType::f16; }), "attention: out is f16, wanted bf16 or f32");
  EXPECT_EQ(message(DType::f16, [](Bridge& b) { b.outputs.out.dtype = DType::f64; }), "attention: out is f64, wanted f16 or f32");
  EXPECT_EQ(message(DType::f64, [](Bridge& b) { b.outputs.out.dtype = DType::f32; }), "attention: out is f32, wanted f64");
  EXPECT_EQ(message(DType::bf16, [](Bridge& b) { b.gradients.k.dtype = DType::f16; }),
            "attention_backward: gradients.k is f16, wanted bf16 or f32");
  EXPECT_EQ(message(DType::f64, [](Bridge& b) { b.gradients.v.dtype = DType::f32; }), "attention_backward: gradients.v is f32, wanted f64");
}

TEST(attention_wide_results, parts_of_two_dtypes_or_narrower_than_the_result_are_refused) {
  std::vector<float> wide(64);
  std::vector<BFloat16> narrow(64);
  std::vector<float> lse(24);
  const Extents shape = {1, 2, 2, 3};
  const Extents row = {1, 2, 2, 1};
  const AttentionPart of_f32 = {view(std::as_const(wide).data(), shape), view(std::as_const(lse).data(), row)};
  const AttentionPart of_bf16 = {view(std::as_const(narrow).data(), shape), view(std::as_const(lse).data() + 4, row)};
  const auto message = [](std::vector<AttentionPart> parts, const TensorView& out) { return merge_attention(parts, {out}).message(); };
  const TensorView to_bf16 = view(narrow.data() + 12, shape);
  EXPECT_EQ(message({of_f32, of_bf16}, to_bf16), "merge_attention: parts[1].out is bf16, wanted f32");
  EXPECT_EQ(message({of_bf16, of_f32}, to_bf16), "merge_attention: parts[1].out is f32, wanted bf16");
  EXPECT_EQ(message({of_bf16}, view(wide.data() + 12, shape)), "merge_attention: parts[0].out is bf16, wanted f32");
  TensorView in_place = to_bf16;
  in_place.data = wide.data();
  EXPECT_EQ(message({of_f32}, in_place), "merge_attention: out overlaps parts[0].out, wanted the same elements or none");
}

}  // namespace
}  // namespace phasor::test
