// SPDX-License-Identifier: Apache-2.0
// Calls of attention that are refused, and what they are told; and that nothing is written then.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <vector>

#include "attention/support/bridge.hpp"
#include "attention/support/problems.hpp"

namespace phasor::test {
namespace {

ref::Problem problem() {
  return random_problem({.batch = 2, .queries = 5, .keys = 7, .heads = 4, .key_heads = 2, .width = 6, .value_width = 3}, 1);
}

using Change = std::function<void(Bridge&)>;

/// The message of a call that was changed; outputs must not have been.
std::string message_of(const Change& change, const ref::Problem& p = problem()) {
  Bridge bridge(p, DType::f32);
  change(bridge);
  const ref::Values before = bridge.output().out;
  const Result<std::int64_t> bytes = attention_workspace(bridge.inputs, bridge.spec);
  std::vector<std::byte> workspace(static_cast<std::size_t>(bytes.ok() ? *bytes : 1 << 20));
  const Status status = attention(bridge.inputs, bridge.spec, bridge.outputs, workspace);
  EXPECT_FALSE(status.ok());
  EXPECT_TRUE(bytes.ok() || bytes.status().message() == status.message()) << bytes.status().message();
  EXPECT_EQ(bridge.output().out, before);
  return status.message();
}

Rotary rotary(const RotarySpec& spec) { return expect_ok(Rotary::make(spec)); }

TEST(attention_call, inputs_that_do_not_fit_each_other) {
  EXPECT_EQ(message_of([](Bridge& b) { b.inputs.k.shape[3] = 5; }), "attention: q has width 6, k has 5, wanted the same");
  EXPECT_EQ(message_of([](Bridge& b) { b.inputs.k.shape[0] = 1; }), "attention: q has batch 2, k has 1, wanted the same");
  EXPECT_EQ(message_of([](Bridge& b) { b.inputs.v.shape[1] = 6; }), "attention: k has tokens 7, v has 6, wanted the same");
  EXPECT_EQ(message_of([](Bridge& b) { b.inputs.v.shape[2] = 1; }), "attention: k has heads 2, v has 1, wanted the same");
  EXPECT_EQ(message_of([](Bridge& b) { b.inputs.q.shape[2] = 3; }),
            "attention: q has 3 heads, k has 2, wanted a number that divides those of q");
  EXPECT_EQ(message_of([](Bridge& b) { b.inputs.k.shape[2] = b.inputs.v.shape[2] = 0; }),
            "attention: q has 4 heads, k has 0, wanted a number that divides those of q");
  EXPECT_EQ(message_of([](Bridge& b) { b.inputs.v.dtype = DType::bf16; }), "attention: q is f32, k is f32, v is bf16, wanted one dtype");
  EXPECT_EQ(message_of([](Bridge& b) { b.inputs.v.strides[3] = 2; }), "attention: v has stride 2 on its last axis, wanted 1 (contiguous)");
  EXPECT_EQ(message_of([](Bridge& b) { b.inputs.q.data = nullptr; }),
            "attention: q has null data and 2 x 5 x 4 x 6 elements, wanted memory");
  EXPECT_EQ(message_of([](Bridge& b) { b.inputs.q.shape[3] = b.inputs.k.shape[3] = 0; }), "attention: q has width 0, wanted at least 1");
  EXPECT_EQ(message_of([](Bridge& b) {
              b.inputs.q.shape[1] = std::int64_t{1} << 50;
              b.inputs.q.strides[1] = 0;
            }),
            "attention: q has 2 x 1125899906842624 x 4 x 6 elements, wanted at most 2^46");
}

TEST(attention_call, numbers_that_are_none) {
  EXPECT_EQ(message_of([](Bridge& b) { b.spec.scale = INFINITY; }), "attention: scale is inf, wanted a finite number");
  EXPECT_EQ(message_of([](Bridge& b) { b.spec.softcap = -1; }), "attention: softcap is -1, wanted 0 (none) or a finite number above");
  EXPECT_EQ(message_of([](Bridge& b) { b.spec.softcap = NAN; }), "attention: softcap is nan, wanted 0 (none) or a finite number above");
  EXPECT_EQ(message_of([](Bridge& b) { b.spec.visibility.mask = static_cast<Mask>(7); }),
            "attention: visibility.mask is 7, wanted full or causal");
  EXPECT_EQ(message_of([](Bridge& b) { b.spec.skip = static_cast<TileSkip>(7); }), "attention: skip is 7, wanted none or certified");
}

TEST(attention_call, sequences_that_do_not_rise_from_0_to_the_end) {
  ref::Problem one = problem();
  one.shape.batch = 1;
  one.q.resize(5 * 4 * 6), one.k.resize(7 * 2 * 6), one.v.resize(7 * 2 * 3);
  const auto with_starts = [&](const ref::Integers& queries, const ref::Integers& keys) {
    return message_of(
        [&](Bridge& b) {
          b.spec.visibility.query_starts = queries;
          b.spec.visibility.key_starts = keys;
        },
        one);
  };
  EXPECT_EQ(with_starts({0, 3, 5}, {0, 7}), "attention: query_starts has 3 elements, key_starts has 2, wanted the same");
  EXPECT_EQ(with_starts({1, 3, 5}, {0, 3, 7}), "attention: query_starts[0] is 1, wanted 0");
  EXPECT_EQ(with_starts({0, 3, 5}, {0, 8, 7}), "attention: key_starts[2] is 7, wanted 8 or above");
  EXPECT_EQ(with_starts({0, 3, 4}, {0, 3, 7}), "attention: query_starts ends at 4, wanted 5 tokens");
  const ref::Integers one_prefix = {1};
  const ref::Integers list = {0, 5};
  const ref::Integers keys = {0, 7};
  EXPECT_EQ(message_of([&](Bridge& b) { b.spec.visibility.query_starts = list, b.spec.visibility.key_starts = keys; }),
            "attention: q has batch 2 and sequences by query_starts, wanted batch 1");
  EXPECT_EQ(message_of([&](Bridge& b) { b.spec.visibility.prefix = one_prefix; }),
            "attention: prefix has 1 elements, wanted 2, one per sequence");
}

TEST(attention_call, positions_that_are_no_integers_or_too_far) {
  // On the heap: the address sanitizer sees no test's globals.
  static const std::vector<double> fractions(10);
  static const std::vector<std::int64_t> far = {0, 1, 2, std::int64_t{1} << 62, 4};
  static const std::vector<std::int64_t> axes(30);
  EXPECT_EQ(message_of([](Bridge& b) { b.spec.query_positions = positions(fractions.data(), 2, 5); }),
            "attention: query_positions: positions are f64, wanted i32 or i64");
  EXPECT_EQ(message_of([](Bridge& b) { b.spec.key_positions = positions(far.data(), 5); }),
            "attention: key_positions: positions have 5 tokens, wanted 7");
  EXPECT_EQ(message_of([](Bridge& b) { b.spec.query_positions = positions(far.data(), 5); }),
            "attention: q has token 3 at position 4611686018427387904, wanted within 2^61 either way");
  EXPECT_EQ(message_of([](Bridge& b) { b.spec.key_positions = positions_from(std::int64_t{1} << 61); }),
            "attention: k has token 0 at position 2305843009213693952, wanted within 2^61 either way");
  EXPECT_EQ(message_of([](Bridge& b) { b.spec.query_positions = positions(axes.data(), 3, 2, 5); }),
            "attention: query_positions have 3 axes, wanted 1 (but for a rotary of several, without a map)");
}

TEST(attention_call, outputs_of_another_shape_or_dtype) {
  EXPECT_EQ(message_of([](Bridge& b) { b.outputs.out.shape[3] = 2; }), "attention: out has shape (2, 5, 4, 2), wanted (2, 5, 4, 3)");
  EXPECT_EQ(message_of([](Bridge& b) { b.outputs.out.dtype = DType::f16; }), "attention: out is f16, wanted f32");
  EXPECT_EQ(message_of([](Bridge& b) { b.outputs.lse.dtype = DType::f16; }), "attention: lse is f16, wanted f32");
  EXPECT_EQ(message_of([](Bridge& b) { b.outputs.lse.shape[3] = 2; }), "attention: lse has shape (2, 5, 4, 2), wanted (2, 5, 4, 1)");
}

TEST(attention_call, memory_that_overlaps) {
  const auto at = [](const TensorView& v, std::int64_t offset) { return static_cast<float*>(v.data) + offset; };
  EXPECT_EQ(message_of([&](Bridge& b) { b.inputs.v.data = at(b.outputs.out, 5); }), "attention: out overlaps v, wanted memory apart");
  EXPECT_EQ(message_of([&](Bridge& b) { b.outputs.lse.data = at(b.outputs.out, 5); }), "attention: lse overlaps out, wanted memory apart");
  EXPECT_EQ(message_of([&](Bridge& b) { b.outputs.out.strides[1] = 0; }),
            "attention: out has strides by which elements overlap, wanted each element once");
  EXPECT_EQ(message_of([&](Bridge& b) {
              b.spec.visibility.key_mask = {static_cast<const std::uint8_t*>(b.outputs.out.data), {7, 1}};
              std::fill_n(static_cast<std::uint8_t*>(b.outputs.out.data), 14, std::uint8_t{0});
            }),
            "attention: out overlaps key_mask, wanted memory apart");
  Bridge bridge(problem(), DType::f32);
  const std::int64_t bytes = expect_ok(attention_workspace(bridge.inputs, bridge.spec));
  std::vector<std::byte> memory(static_cast<std::size_t>(bytes) + 1000);
  const std::span<std::byte> workspace = std::span(memory).first(static_cast<std::size_t>(bytes));
  const auto try_with = [&](const AttentionInputs& inputs, const AttentionOutputs& outputs, std::span<std::byte> given) {
    return attention(inputs, bridge.spec, outputs, given).message();
  };
  AttentionInputs inputs = bridge.inputs;
  inputs.k.data = memory.data() + 128;
  EXPECT_EQ(try_with(inputs, bridge.outputs, workspace), "attention: the workspace overlaps k, wanted memory apart");
  AttentionOutputs outputs = bridge.outputs;
  outputs.out.data = memory.data() + 128;
  EXPECT_EQ(try_with(bridge.inputs, outputs, workspace), "attention: the workspace overlaps out, wanted memory apart");
  EXPECT_EQ(try_with(bridge.inputs, bridge.outputs, workspace.first(static_cast<std::size_t>(bytes - 1))),
            "attention: the workspace has " + std::to_string(bytes - 1) + " bytes, wanted " + std::to_string(bytes));
  EXPECT_EQ(try_with(bridge.inputs, bridge.outputs, workspace), "");
}

TEST(attention_call, contents_that_cannot_be) {
  const Rotary six = rotary({.head_dim = 6});
  const Rotary eight = rotary({.head_dim = 8});
  const auto content = [](const AttentionContent& made, Mask mask = Mask::causal) {
    return message_of([&](Bridge& b) {
      b.spec.content = made;
      b.spec.visibility.mask = mask;
    });
  };
  EXPECT_EQ(content(RotaryContent{eight}), "attention: content: apply_rotary: q has head_dim 6, the spec wants 8");
  EXPECT_EQ(content(XposContent{eight}), "attention: content: apply_rotary: q has head_dim 6, the spec wants 8");
  EXPECT_EQ(content(RotaryContent{six, KeyState::unrotated, ReRope{4}}, Mask::full),
            "attention: content has a map and mask is full, wanted causal");
  EXPECT_EQ(content(RotaryContent{six, KeyState::rotated, ReRope{4}}),
            "attention: content has a map and rotated keys, wanted them unrotated");
  EXPECT_EQ(content(RotaryContent{six, KeyState::unrotated, ReRope{0}}), "attention: content.map: window is 0, wanted 1 to 2^53");
  EXPECT_EQ(content(XposContent{six, 0.0}), "attention: content.gamma is 0, wanted above 0");
  EXPECT_EQ(content(XposContent{six, 0.4, -1}), "attention: content.scale_base is -1, wanted above 0");
  EXPECT_EQ(content(XposContent{rotary({.head_dim = 6, .axes = {.sections = {1, 2}}})}),
            "attention: xPos has a rotary of several axes, segments, per-channel frequencies or directions, wanted a plain one");
  EXPECT_EQ(message_of([&](Bridge& b) {
              b.spec.content = RotaryContent{six, KeyState::unrotated, ReRope{4}};
              b.spec.visibility.mask = Mask::causal;
              b.spec.key_positions = positions_from(-3);
            }),
            "attention: content has a map and k has position -3, wanted none below 0");
  static const std::vector<float> shift(24);
  EXPECT_EQ(message_of([&](Bridge& b) {
              b.spec.content = RotaryContent{six};
              b.spec.content_shift = view(shift.data(), {1, 1, 4, 6});
            }),
            "attention: content_shift is given beside a rotated content, wanted PlainContent");
  EXPECT_EQ(message_of([&](Bridge& b) { b.spec.content_shift = view(shift.data(), {1, 1, 3, 6}); }),
            "attention: content_shift has shape (1, 1, 3, 6), wanted (1, 1, 4 or 1, 6)");
}

TEST(attention_call, the_workspace_grows_with_tokens_not_with_their_square) {
  const auto workspace = [](std::int64_t queries, std::int64_t keys, const AttentionContent& content) {
    static float memory[1] = {};  // only asked about: stride 0 everywhere but on channels
    const auto of = [&](std::int64_t tokens, std::int64_t heads) {
      return view(std::as_const(memory), {1, tokens, heads, 64}, {0, 0, 0, 1});
    };
    const AttentionInputs inputs{of(queries, 8), of(keys, 2), of(keys, 2)};
    const AttentionSpec spec{.content = content, .visibility = {.mask = Mask::causal}};
    return static_cast<double>(expect_ok(attention_workspace(inputs, spec)));
  };
  const Rotary rope = rotary({.head_dim = 64});
  const RotaryContent mapped{rope, KeyState::unrotated, ReRope{100}};
  for (const AttentionContent& content :
       {AttentionContent(PlainContent{}), AttentionContent(mapped), AttentionContent(XposContent{rope})}) {
    const double one = workspace(16384, 16384, content);
    EXPECT_LT(workspace(32768, 32768, content), 2.01 * one);
    EXPECT_LT(workspace(1, 65536, content), 2.01 * workspace(1, 32768, content));
    EXPECT_LT(one, 16384.0 * 64 * 4 * (3 * (8 + 2) + 3 * 2) + (64 << 20));  // at most three contents, their panels, and scratch
  }
}

TEST(attention_call, terms_that_want_a_causal_mask) {
  static const std::vector<float> table(18);
  EXPECT_EQ(message_of([](Bridge& b) { b.spec.terms = {CopeTerm{view(table.data(), {1, 3, 1, 6})}}; }),
            "attention: terms[0] is CoPE and mask is full, wanted causal");
}

TEST(attention_call, a_certified_skip_is_for_alibi_alone) {
  const Bias alibi = expect_ok(Bias::make(Alibi{.heads = 4}));
  const auto skip = [&](const Change& change) {
    return message_of([&](Bridge& b) {
      b.spec.terms = {BiasTerm{alibi}};
      b.spec.visibility.mask = Mask::causal;
      b.spec.skip = TileSkip::certified;
      change(b);
    });
  };
  const std::string wants_alibi = "attention: skip is certified, wanted one term: symmetric or causal ALiBi without a gate";
  EXPECT_EQ(skip([](Bridge& b) { b.spec.terms.clear(); }), wants_alibi);
  EXPECT_EQ(skip([&](Bridge& b) { b.spec.terms.emplace_back(BiasTerm{alibi}); }), wants_alibi);
  EXPECT_EQ(skip([](Bridge& b) { b.spec.terms = {BiasTerm{expect_ok(Bias::make(T5Buckets{.heads = 4}))}}; }), wants_alibi);
  EXPECT_EQ(skip([](Bridge& b) { b.spec.visibility.mask = Mask::full; }),
            "attention: skip is certified, wanted a causal mask without a prefix");
  EXPECT_EQ(skip([](Bridge& b) { b.spec.softcap = 3; }),
            "attention: skip is certified, wanted PlainContent without content_shift and softcap");
}

}  // namespace
}  // namespace phasor::test
