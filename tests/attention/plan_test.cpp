// SPDX-License-Identifier: Apache-2.0
// A scheme without its tensors, made once: its calls are those of the spec that it was taken from, and what does not fit is refused.
#include <gtest/gtest.h>

#include "attention/support/held.hpp"
#include "phasor/scheme.hpp"
#include "phasor/serialised.hpp"

namespace phasor::test {
namespace {

TermTensors tensors_of(const BiasTerm& t) { return {.features = t.gate, .parameters = t.parameters}; }
TermTensors tensors_of(const TableTerm& t) { return {.table = t.table, .features = t.features, .shift = t.shift}; }
TermTensors tensors_of(const SegmentTerm& t) {
  return {.table = t.table, .shift = t.shift, .query_segments = t.query_segments, .key_segments = t.key_segments};
}
TermTensors tensors_of(const GridTerm& t) { return {.table = t.table}; }
TermTensors tensors_of(const DecomposedTerm& t) { return {.table = t.rows_h, .second = t.rows_w}; }
TermTensors tensors_of(const DenseTerm& t) { return {.table = t.bias}; }
TermTensors tensors_of(const CopeTerm& t) { return {.table = t.table}; }

std::vector<TermTensors> term_tensors(const AttentionSpec& spec) {
  std::vector<TermTensors> list;
  for (const AttentionTerm& term : spec.terms) list.push_back(std::visit([](const auto& one) { return tensors_of(one); }, term));
  return list;
}
AttentionTensors tensors_of(const AttentionSpec& spec, std::span<const TermTensors> terms) {
  const Visibility& see = spec.visibility;
  return {.terms = terms,
          .content_shift = spec.content_shift,
          .sinks = spec.sinks,
          .prefix = see.prefix,
          .query_starts = see.query_starts,
          .key_starts = see.key_starts,
          .key_mask = see.key_mask,
          .query_positions = spec.query_positions,
          .key_positions = spec.key_positions,
          .dropout_seed = spec.dropout.seed,
          .dropout_offset = spec.dropout.offset,
          .dropout_first_head = spec.dropout.first_head,
          .dropout_first_sequence = spec.dropout.first_sequence,
          .execution = spec.execution};
}

/// The scheme of a spec by way of its text, and a call's spec of it again.
AttentionSpec by_plan(const AttentionSpec& spec, const std::string& name) {
  const auto made = Attention::make(scheme_of(spec));
  EXPECT_EQ(made.status().message(), "") << name;
  const auto read = attention_scheme_from_json(made->serialised());
  EXPECT_EQ(read.status().message(), "") << name;
  const auto sent = Attention::make(*read);
  EXPECT_TRUE(*sent == *made) << name;
  const std::vector<TermTensors> terms = term_tensors(spec);
  const auto back = sent->spec(tensors_of(spec, terms));
  EXPECT_EQ(back.status().message(), "") << name;
  return *back;
}

void expect_same_call(const ref::Problem& problem, DType dtype, const std::string& name, const Dropout& dropout = {}) {
  Bridge given(problem, dtype);
  Bridge planned(problem, dtype);
  given.spec.dropout = planned.spec.dropout = dropout;
  planned.spec = by_plan(planned.spec, name);
  ASSERT_EQ(given.forward().message(), "") << name;
  ASSERT_EQ(planned.forward().message(), "") << name;
  EXPECT_EQ(given.output().out, planned.output().out) << name;
  EXPECT_EQ(given.output().lse, planned.output().lse) << name;
}

const ref::Shape kShape{.batch = 2, .queries = 5, .keys = 8, .heads = 4, .key_heads = 2, .width = 4, .value_width = 3};

TEST(attention_plan, every_scheme_gives_the_bits_of_its_spec) {
  for (const NamedScheme& one : every_scheme(kShape, 1)) {
    const auto* xpos = std::get_if<ref::Xpos>(&one.scheme);
    if (xpos != nullptr && xpos->keys_rotated) continue;  // the library has none
    ref::Problem p = random_problem(kShape, 2);
    p.schemes = {one.scheme};
    p.visibility.causal = one.causal_only || std::holds_alternative<ref::Cope>(one.scheme);
    expect_same_call(p, DType::f32, one.name);
  }
}

TEST(attention_plan, visibility_caps_and_dropout_are_those_of_the_call) {
  for (const NamedMask& one : every_mask(kShape)) {
    ref::Problem p = random_problem(kShape, 3);
    p.visibility = one.visibility;
    p.softcap = 4;
    expect_same_call(p, DType::f64, one.name, {.probability = 0.3, .seed = 7, .offset = 9, .first_head = 2, .first_sequence = 5});
  }
}

TEST(attention_plan, equal_schemes_are_equal_and_others_are_not) {
  const auto of = [](double softcap) { return *Attention::make({.terms = {DenseScheme{}}, .softcap = softcap}); };
  EXPECT_TRUE(of(3) == of(3));
  EXPECT_FALSE(of(3) == of(4));
  EXPECT_EQ(of(3).serialised(), R"({"phasor":1,"type":"AttentionScheme","terms":[{"type":"DenseScheme"}],"softcap":3})");
  EXPECT_EQ(of(3).scheme().softcap, 3);
}

TEST(attention_plan, what_is_no_scheme_is_not_planned) {
  EXPECT_EQ(Attention::make({.dropout = 2}).status().message(), "AttentionScheme: dropout is 2, wanted 0 or above, and below 1");
}

TEST(attention_plan, tensors_are_those_that_the_scheme_names) {
  const auto message = [](const AttentionScheme& scheme, const AttentionTensors& tensors) {
    return Attention::make(scheme)->spec(tensors).status().message();
  };
  const float number = 0;
  const ConstTensorView one = {&number, DType::f32, {1, 1, 1, 1}, {1, 1, 1, 1}};
  const AttentionScheme scheme = {.terms = {DenseScheme{}, BiasScheme{.bias = Alibi{.heads = 4}, .gate = true}}};
  EXPECT_EQ(message(scheme, {}), "Attention::spec: terms[0].table is not given, wanted a tensor by the scheme");
  const TermTensors lacking[] = {{.table = one}, {}};
  EXPECT_EQ(message(scheme, {.terms = lacking}), "Attention::spec: terms[1].features is not given, wanted a tensor by the scheme");
  const TermTensors more[] = {{.table = one}, {.features = one, .parameters = one}};
  EXPECT_EQ(message(scheme, {.terms = more}), "Attention::spec: terms[1].parameters is given, wanted none by the scheme");
  EXPECT_EQ(message(scheme, {.terms = std::span(more, 1)}), "Attention::spec: terms has 1 elements, wanted 2");
  EXPECT_EQ(message({.sinks = true}, {}), "Attention::spec: sinks is not given, wanted a tensor by the scheme");
  EXPECT_EQ(message({}, {.content_shift = one}), "Attention::spec: content_shift is given, wanted none by the scheme");
}

}  // namespace
}  // namespace phasor::test
