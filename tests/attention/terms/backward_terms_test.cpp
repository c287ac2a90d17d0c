// SPDX-License-Identifier: Apache-2.0
// The backward with several terms at once: against the reference, and bit for bit whatever else is wanted and whoever runs it.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "attention/support/bridge.hpp"
#include "attention/support/problems.hpp"
#include "attention/support/table_problems.hpp"

namespace phasor::test {
namespace {

struct Mixture {
  std::string name;
  ref::Problem problem;
};

/// Clips and buckets that saturate within some tiles and not in others.
std::vector<ref::Scheme> mixed_schemes(const ref::Shape& s, int which) {
  Numbers random(21);
  const ref::T5 t5{.buckets = 16, .max_distance = 60, .table = random.values(s.heads * 16)};
  const ref::Shaw shaw{.left = 30, .right = 9, .keys = random.values(40 * s.width), .values = random.values(40 * s.value_width)};
  const ref::Deberta deberta{
      .buckets = 12, .max_distance = 40, .keys = random.values(s.heads * 24 * s.width), .queries = random.values(s.heads * 24 * s.width)};
  const ref::TransformerXl xl = random_xl(s, random);
  const ref::WavLm gated{t5, random.values(s.batch * s.queries * s.heads)};
  const ref::Dense dense{.extents = {1, s.heads, 1, s.keys}, .bias = random.values(s.heads * s.keys)};
  if (which == 0) return {t5, shaw, deberta};
  if (which == 1) return {xl, ref::Alibi{random.values(s.heads, 0.01, 0.1)}, dense};
  return {gated, shaw, ref::Rope{ref::Ladder{.base = 50}}};
}

std::vector<Mixture> mixtures() {
  const ref::Shape grouped{.batch = 2, .queries = 101, .keys = 131, .heads = 4, .key_heads = 2, .width = 8, .value_width = 6};
  const ref::Shape many_heads{.batch = 1, .queries = 70, .keys = 140, .heads = 8, .key_heads = 8, .width = 4, .value_width = 4};
  std::vector<Mixture> all;
  for (const ref::Shape& shape : {grouped, many_heads}) {  // key tiles in parts, and not
    for (int which = 0; which < 3; ++which) {
      Mixture m{std::to_string(shape.key_heads) + " key heads, mixture " + std::to_string(which), random_problem(shape, 22)};
      m.problem.schemes = mixed_schemes(shape, which);
      if (which == 0) m.problem.softcap = 2;
      if (which == 1) m.problem.visibility = {.causal = true, .left = 90};
      if (which == 2) m.problem.visibility.causal = true;
      all.push_back(m);
    }
  }
  return all;
}

TEST(attention_backward_terms, together_are_the_reference) {
  for (const Mixture& m : mixtures()) {
    expect_as_reference(m.problem, DType::f64, m.name);
    expect_as_reference(m.problem, DType::f32, m.name);
  }
}

/// Every number that the call gave, one after the other.
ref::Values all_numbers(const ref::Gradients& g) {
  ref::Values all = g.q;
  all.insert(all.end(), g.k.begin(), g.k.end());
  all.insert(all.end(), g.v.begin(), g.v.end());
  for (ref::Scheme scheme : g.schemes) {
    for (const ref::Parameter& p : parameters_of(scheme)) {
      all.insert(all.end(), p.values.begin(), p.values.end());
    }
  }
  return all;
}

ref::Gradients run(Bridge& bridge) {
  const ref::Shape& s = bridge.problem.shape;
  EXPECT_TRUE(bridge.forward().ok());
  const Status status = bridge.backward(Numbers(23).values(s.batch * s.queries * s.heads * s.value_width));
  EXPECT_TRUE(status.ok()) << status.message();
  return bridge.reference_gradients();
}

TEST(attention_backward_terms, order_of_tasks_does_not_change_a_bit) {
  for (const Mixture& m : mixtures()) {
    Bridge bridge(m.problem, DType::f32);
    Bridge reversed(m.problem, DType::f32);
    reversed.spec.execution.runner.run = [](void*, std::int64_t tasks, void (*task)(void*, std::int64_t), void* context) {
      for (std::int64_t i = tasks - 1; i >= 0; --i) task(context, i);
    };
    EXPECT_EQ(all_numbers(run(reversed)), all_numbers(run(bridge))) << m.name;
  }
}

TEST(attention_backward_terms, one_term_alone_has_the_bits_of_all) {
  for (const Mixture& m : mixtures()) {
    Bridge full(m.problem, DType::f32);
    const ref::Values all = all_numbers(run(full));
    ref::Values sum(all.size(), 0);
    for (std::size_t t = 0; t < full.gradients.terms.size() + 4; ++t) {  // each by itself; what is not wanted stays 0
      Bridge one(m.problem, DType::f32);
      const AttentionGradients wanted = one.gradients;
      one.gradients = {};
      one.gradients.terms.resize(wanted.terms.size());
      if (t < wanted.terms.size()) one.gradients.terms[t] = wanted.terms[t];
      if (t == wanted.terms.size()) one.gradients.q = wanted.q;
      if (t == wanted.terms.size() + 1) one.gradients.k = wanted.k;
      if (t == wanted.terms.size() + 2) one.gradients.v = wanted.v;
      if (t == wanted.terms.size() + 3) one.gradients.content_shift = wanted.content_shift;
      const ref::Values alone = all_numbers(run(one));
      for (std::size_t n = 0; n < sum.size(); ++n) sum[n] += alone[n];
    }
    EXPECT_EQ(sum, all) << m.name;
  }
}

TEST(attention_backward_terms, gradients_are_added_to_what_is_there) {
  const Mixture m = mixtures()[0];
  Bridge once(m.problem, DType::f64);
  Bridge twice(m.problem, DType::f64);
  ref::Gradients one = run(once);
  run(twice);
  ref::Gradients two = run(twice);
  for (std::size_t n = 0; n < one.schemes.size(); ++n) {
    const ref::Parameters single = parameters_of(one.schemes[n]);
    const ref::Parameters both = parameters_of(two.schemes[n]);
    for (std::size_t k = 0; k < single.size(); ++k) {
      for (std::size_t i = 0; i < single[k].values.size(); ++i) EXPECT_NEAR(both[k].values[i], 2 * single[k].values[i], 1e-10);
    }
  }
  EXPECT_EQ(two.q, one.q);  // written
}

}  // namespace
}  // namespace phasor::test
