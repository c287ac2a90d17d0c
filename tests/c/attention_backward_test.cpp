// SPDX-License-Identifier: Apache-2.0
// Attention in C beside the forward call: gradients, weights, and parts made one, bitwise those of C++.
#include <memory>
#include <tuple>
#include <utility>

#include "c/attention_support.hpp"

namespace phasor::test {
namespace {

/// Learned biases with a gate, a table on either side, shifts and sinks: every gradient that there is but those of grids.
struct Learned {
  Problem problem{{.batch = 2, .queries = 5, .keys = 5, .heads = 3, .key_heads = 1, .head_dim = 10, .value_dim = 7}};
  Numbered gate{{1, 5, 3, 1}, 4}, parameters{{1, 1, 1, 18}, 5}, table{{1, 6, 1, 10}, 6}, shift{{1, 1, 3, 10}, 7}, values{{1, 6, 3, 7}, 8};
  Numbered heights{{1, 3, 1, 10}, 9}, widths{{1, 5, 1, 10}, 10}, u{{1, 1, 3, 10}, 11}, sinks{{1, 1, 3, 1}, 12};
  phasor_bias_spec bias = sized<phasor_bias_spec>();
  std::vector<phasor_term_scheme> terms = {term_of(PHASOR_TERM_BIAS), term_of(PHASOR_TERM_TABLE), term_of(PHASOR_TERM_TABLE),
                                           term_of(PHASOR_TERM_DECOMPOSED)};
  std::vector<phasor_term_tensors> tensors = std::vector<phasor_term_tensors>(4, sized<phasor_term_tensors>());
  phasor_attention_scheme scheme{};
  phasor_attention_tensors given{};
  AttentionSpec spec;

  Learned() {
    bias.kind = PHASOR_BIAS_SHAW_CLIP;
    bias.heads = 3;
    bias.left = 3;
    bias.right = 2;
    terms[0].bias = &bias;
    terms[0].gate = terms[0].parameters = 1;
    terms[1].left = 3;
    terms[1].right = 2;
    terms[1].shift = 1;
    terms[2] = terms[1];
    terms[2].shift = 0;
    terms[2].side = PHASOR_TABLE_VALUE;
    terms[3].query_grid = terms[3].key_grid = {2, 3};
    tensors[0].features = gate.get();
    tensors[0].parameters = parameters.get();
    tensors[1].table = table.get();
    tensors[1].shift = shift.get();
    tensors[2].table = values.get();
    tensors[3].table = heights.get();
    tensors[3].second = widths.get();
    scheme = scheme_of_terms(terms, PHASOR_MASK_CAUSAL);
    scheme.content_shift = scheme.sinks = 1;
    given = tensors_of_terms(tensors);
    given.content_shift = u.get();
    given.sinks = sinks.get();
    spec.terms = {
        BiasTerm{.bias = *Bias::make(ShawClip{.heads = 3, .left = 3, .right = 2}), .gate = gate.view(), .parameters = parameters.view()},
        TableTerm{.table = table.view(), .rows = ClipRows{3, 2}, .shift = shift.view()},
        TableTerm{.side = TableSide::value, .table = values.view(), .rows = ClipRows{3, 2}},
        DecomposedTerm{.query_grid = {2, 3}, .key_grid = {2, 3}, .rows_h = heights.view(), .rows_w = widths.view()}};
    spec.content_shift = u.view();
    spec.sinks = sinks.view();
    spec.visibility.mask = Mask::causal;
  }
};

/// Where gradients go, in C and in C++; both begin with the same numbers, since some are added to.
struct LearnedGradients {
  std::vector<std::unique_ptr<Numbered>> c, cpp;
  phasor_attention_gradients gradients = sized<phasor_attention_gradients>();
  std::vector<phasor_term_gradient> terms = std::vector<phasor_term_gradient>(4, sized<phasor_term_gradient>());
  AttentionGradients same;

  explicit LearnedGradients(const Learned& of) {
    same.terms.resize(4);
    std::tie(gradients.q, same.q) = like(of.problem.q);
    std::tie(gradients.k, same.k) = like(of.problem.k);
    std::tie(gradients.v, same.v) = like(of.problem.v);
    std::tie(gradients.content_shift, same.content_shift) = like(of.u);
    std::tie(gradients.sinks, same.sinks) = like(of.sinks);
    std::tie(terms[0].features, same.terms[0].features) = like(of.gate);
    std::tie(terms[0].parameters, same.terms[0].parameters) = like(of.parameters);
    std::tie(terms[1].table, same.terms[1].table) = like(of.table);
    std::tie(terms[1].shift, same.terms[1].shift) = like(of.shift);
    std::tie(terms[2].table, same.terms[2].table) = like(of.values);
    std::tie(terms[3].table, same.terms[3].table) = like(of.heights);
    std::tie(terms[3].second, same.terms[3].second) = like(of.widths);
    gradients.terms = terms.data();
    gradients.term_count = terms.size();
  }
  std::pair<const phasor_tensor*, TensorView> like(const Numbered& tensor) {
    c.push_back(std::make_unique<Numbered>(tensor.shape, 50));
    cpp.push_back(std::make_unique<Numbered>(tensor.shape, 50));
    return {c.back()->get(), cpp.back()->view()};
  }
};

TEST(CAttentionBackward, every_gradient_is_that_of_cpp) {
  const Learned learned;
  const Problem& problem = learned.problem;
  expect_same(problem, learned.scheme, &learned.given, learned.spec);
  const Forward forward = forward_of(problem, learned.spec);
  const Numbered by_out(problem.out_shape(), 20), by_lse(problem.lse_shape(), 21);
  const CTensor<float> out({2, 5, 3, 7}, forward.out), lse({2, 5, 3, 1}, forward.lse);

  LearnedGradients list(learned);
  AttentionGradients& same = list.same;
  phasor_attention_gradients& gradients = list.gradients;
  const std::int64_t want_bytes = *attention_backward_workspace(problem.same(), learned.spec, same);
  std::vector<std::byte> memory(static_cast<std::size_t>(want_bytes));
  const Status status = attention_backward(
      problem.same(), learned.spec, {view_of(out, problem.out_shape()), view_of(lse, problem.lse_shape()), by_out.view(), by_lse.view()},
      same, memory);
  ASSERT_TRUE(status.ok()) << status.message();

  const SchemePointer scheme = made(learned.scheme);
  const phasor_attention_inputs inputs = problem.inputs(&learned.given);
  std::int64_t bytes = -1;
  succeeds([&](phasor_error* error) { return phasor_attention_backward_workspace(scheme.get(), &inputs, &gradients, &bytes, error); });
  EXPECT_EQ(bytes, want_bytes);
  const phasor_workspace workspace = {memory.data(), memory.size(), nullptr, nullptr};
  auto saved = sized<phasor_attention_saved>();
  saved.out = out.get();
  saved.lse = lse.get();
  saved.out_gradient = by_out.get();
  saved.lse_gradient = by_lse.get();
  const auto backward = [&](phasor_error* error) {
    return phasor_attention_backward(scheme.get(), &inputs, &saved, &gradients, &workspace, error);
  };
  gradients.nondeterministic = 1;  // a CPU does not make use of it
  succeeds(backward);
  ASSERT_EQ(list.c.size(), 12U);
  for (std::size_t i = 0; i < list.c.size(); ++i) {
    EXPECT_TRUE(equal_bits(list.c[i]->tensor.values, list.cpp[i]->tensor.values)) << i;
    EXPECT_FALSE(equal_bits(list.c[i]->tensor.values, Numbered(list.c[i]->shape, 50).tensor.values)) << i;
  }

  const std::vector<float> before = list.c[0]->tensor.values;
  gradients.term_count = 3;
  EXPECT_NE(failure(PHASOR_INVALID, backward), "");
  saved.lse = nullptr;
  EXPECT_EQ(failure(PHASOR_INVALID, backward), "attention_backward: lse is null, wanted one");
  EXPECT_EQ(phasor_attention_backward(scheme.get(), &inputs, nullptr, &gradients, &workspace, nullptr), PHASOR_INVALID);
  EXPECT_EQ(phasor_attention_backward_workspace(scheme.get(), &inputs, nullptr, &bytes, nullptr), PHASOR_INVALID);
  EXPECT_EQ(list.c[0]->tensor.values, before);
}

TEST(CAttentionWeights, some_rows_are_those_of_cpp) {
  Learned learned;
  learned.scheme.dropout = learned.spec.dropout.probability = 0.5;
  learned.given.dropout_seed = learned.spec.dropout.seed = 9;
  const Problem& problem = learned.problem;
  constexpr Extents kRows = {1, 3, 2, 5};
  const Numbered weights(kRows, 30), factors(kRows, 31), want(kRows, 30), want_factors(kRows, 31);
  const AttentionRows rows = {.batch = 1, .query = 2, .head = 1};
  const AttentionWeights to = {want.view(), want_factors.view()};
  std::vector<std::byte> memory(static_cast<std::size_t>(*attention_weights_workspace(problem.same(), learned.spec, rows, to)));
  ASSERT_TRUE(attention_weights(problem.same(), learned.spec, rows, to, memory).ok());

  const SchemePointer scheme = made(learned.scheme);
  const phasor_attention_inputs inputs = problem.inputs(&learned.given);
  auto call = sized<phasor_attention_weights_call>();
  call.weights = weights.get();
  call.factors = factors.get();
  call.batch = 1;
  call.query = 2;
  call.head = 1;
  std::int64_t bytes = -1;
  succeeds([&](phasor_error* error) { return phasor_attention_weights_workspace(scheme.get(), &inputs, &call, &bytes, error); });
  EXPECT_EQ(bytes, static_cast<std::int64_t>(memory.size()));
  const phasor_workspace workspace = {memory.data(), memory.size(), nullptr, nullptr};
  const auto run = [&](phasor_error* error) { return phasor_attention_weights(scheme.get(), &inputs, &call, &workspace, error); };
  succeeds(run);
  EXPECT_TRUE(equal_bits(weights.tensor.values, want.tensor.values));
  EXPECT_TRUE(equal_bits(factors.tensor.values, want_factors.tensor.values));
  EXPECT_FALSE(equal_bits(weights.tensor.values, Numbered(kRows, 30).tensor.values));
  phasor_attention_inputs without = inputs;
  without.v = nullptr;
  const Numbered again(kRows, 32);
  call.weights = again.get();
  succeeds([&](phasor_error* error) { return phasor_attention_weights_workspace(scheme.get(), &without, &call, &bytes, error); });
  EXPECT_EQ(bytes, static_cast<std::int64_t>(memory.size()));
  succeeds([&](phasor_error* error) { return phasor_attention_weights(scheme.get(), &without, &call, &workspace, error); });
  EXPECT_TRUE(equal_bits(again.tensor.values, want.tensor.values));
  call.query = 3;
  EXPECT_NE(failure(PHASOR_INVALID, run), "");  // three rows from there on are too many
  call.weights = nullptr;
  EXPECT_EQ(failure(PHASOR_INVALID, run), "attention_weights: weights is null, wanted one");
  EXPECT_EQ(phasor_attention_weights_workspace(scheme.get(), &inputs, nullptr, &bytes, nullptr), PHASOR_INVALID);
  EXPECT_TRUE(equal_bits(weights.tensor.values, want.tensor.values));
}

TEST(CAttentionParts, outputs_over_parts_of_the_keys_are_merged_as_in_cpp) {
  const Numbered first({2, 3, 5, 7}, 1), first_lse({2, 3, 5, 1}, 2), second({2, 3, 5, 7}, 3), second_lse({2, 3, 5, 1}, 4);
  const Numbered want({2, 3, 5, 7}, 5), want_lse({2, 3, 5, 1}, 6), out({2, 3, 5, 7}, 5), lse({2, 3, 5, 1}, 6);
  const std::vector<AttentionPart> same = {{first.view(), first_lse.view()}, {second.view(), second_lse.view()}};
  ASSERT_TRUE(merge_attention(same, {want.view(), want_lse.view()}).ok());
  phasor_attention_part parts[] = {{first.get(), first_lse.get()}, {second.get(), second_lse.get()}};
  auto outputs = sized<phasor_attention_outputs>();
  outputs.out = out.get();
  outputs.lse = lse.get();
  succeeds([&](phasor_error* error) { return phasor_merge_attention(parts, 2, &outputs, nullptr, error); });
  EXPECT_TRUE(equal_bits(out.tensor.values, want.tensor.values));
  EXPECT_TRUE(equal_bits(lse.tensor.values, want_lse.tensor.values));
  EXPECT_FALSE(equal_bits(out.tensor.values, Numbered({2, 3, 5, 7}, 5).tensor.values));
  parts[1].lse = nullptr;
  EXPECT_EQ(failure(PHASOR_INVALID, [&](phasor_error* error) { return phasor_merge_attention(parts, 2, &outputs, nullptr, error); }),
            "merge_attention: the lse of a part is null, wanted one");
  EXPECT_EQ(failure(PHASOR_INVALID, [&](phasor_error* error) { return phasor_merge_attention(nullptr, 2, &outputs, nullptr, error); }),
            "merge_attention: parts is null and has 2 elements, wanted their memory");
  EXPECT_EQ(failure(PHASOR_INVALID, [&](phasor_error* error) { return phasor_merge_attention(nullptr, 0, &outputs, nullptr, error); }),
            "merge_attention: no parts are given, wanted one at least");
  EXPECT_TRUE(equal_bits(out.tensor.values, want.tensor.values));
}

}  // namespace
}  // namespace phasor::test
