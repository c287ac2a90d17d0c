// SPDX-License-Identifier: Apache-2.0
// Calls of the backward: what is refused, what is empty, and the gradient of the content shift.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "attention/support/bridge.hpp"
#include "attention/support/compare.hpp"
#include "attention/support/problems.hpp"

namespace phasor::test {
namespace {

// ---- Refusals ----

/// A call that fails says so, and writes nothing.
void expect_refused(Bridge& bridge, const AttentionSaved& saved, const std::string& message) {
  const ref::Gradients before = bridge.reference_gradients();
  const Result<std::int64_t> bytes = attention_backward_workspace(bridge.inputs, bridge.spec, bridge.gradients);
  std::vector<std::byte> workspace(static_cast<std::size_t>(bytes.ok() ? *bytes : 0));
  const Status status = attention_backward(bridge.inputs, bridge.spec, saved, bridge.gradients, workspace);
  EXPECT_EQ(status.message(), "attention_backward: " + message);
  const ref::Gradients after = bridge.reference_gradients();
  EXPECT_EQ(after.q, before.q) << message;
  EXPECT_EQ(after.k, before.k) << message;
  EXPECT_EQ(after.v, before.v) << message;
}

struct Refusal : testing::Test {
  Bridge bridge{random_problem({.batch = 1, .queries = 3, .keys = 4, .heads = 2, .key_heads = 1, .width = 8, .value_width = 6}, 11),
                DType::f32};
  std::vector<float> memory = std::vector<float>(64, 1);
  AttentionSaved saved() { return {bridge.outputs.out, bridge.outputs.lse, view(memory.data(), {1, 3, 2, 6})}; }
};

TEST_F(Refusal, shapes) {
  AttentionSaved s = saved();
  s.out_gradient.shape[1] = 2;
  expect_refused(bridge, s, "saved.out_gradient has shape (1, 2, 2, 6), wanted (1, 3, 2, 6)");
  s = saved();
  s.lse.shape[3] = 2;
  expect_refused(bridge, s, "saved.lse has shape (1, 3, 2, 2), wanted (1, 3, 2, 1)");
  bridge.gradients.k.shape[2] = 2;
  expect_refused(bridge, saved(), "gradients.k has shape (1, 4, 2, 8), wanted (1, 4, 1, 8)");
}

TEST_F(Refusal, dtypes) {
  AttentionSaved s = saved();
  s.lse.dtype = DType::f64;
  expect_refused(bridge, s, "saved.lse is f64, wanted f32");
  bridge.gradients.v.dtype = DType::bf16;
  expect_refused(bridge, saved(), "gradients.v is bf16, wanted f32");
}

TEST_F(Refusal, memory_that_is_read) {
  AttentionSaved s = saved();
  s.out = bridge.gradients.q;
  s.out.shape = {1, 3, 2, 6};
  expect_refused(bridge, s, "gradients.q overlaps saved.out, wanted memory apart");
  bridge.gradients.k.data = const_cast<void*>(bridge.inputs.k.data);
  std::vector<std::byte> workspace(1 << 20);
  EXPECT_EQ(attention_backward(bridge.inputs, bridge.spec, saved(), bridge.gradients, workspace).message(),
            "attention_backward: gradients.k overlaps k, wanted memory apart");
}

TEST_F(Refusal, a_workspace_that_is_too_small) {
  const Result<std::int64_t> bytes = attention_backward_workspace(bridge.inputs, bridge.spec, bridge.gradients);
  ASSERT_TRUE(bytes.ok());
  std::vector<std::byte> workspace(static_cast<std::size_t>(*bytes - 1));
  const Status status = attention_backward(bridge.inputs, bridge.spec, saved(), bridge.gradients, workspace);
  EXPECT_EQ(status.message(),
            "attention_backward: the workspace has " + std::to_string(*bytes - 1) + " bytes, wanted " + std::to_string(*bytes));
}

TEST_F(Refusal, gradients_of_terms_that_are_not_there) {
  bridge.gradients.terms.resize(2);
  expect_refused(bridge, saved(), "gradients.terms has 2 elements, wanted 0 or none");
  bridge.gradients.terms.clear();
  bridge.gradients.content_shift = view(memory.data(), {1, 1, 2, 8});
  expect_refused(bridge, saved(), "gradients.content_shift is given, wanted a content_shift, too");
}

TEST_F(Refusal, a_shift_beside_a_rotation) {
  const Result<Rotary> rotary = Rotary::make({.head_dim = 8});
  ASSERT_TRUE(rotary.ok());
  bridge.spec.content_shift = view(static_cast<const float*>(memory.data()), {1, 1, 2, 8});
  for (const AttentionContent& content : {AttentionContent{RotaryContent{*rotary}}, AttentionContent{XposContent{*rotary}}}) {
    bridge.spec.content = content;
    const Result<std::int64_t> bytes = attention_backward_workspace(bridge.inputs, bridge.spec, bridge.gradients);
    EXPECT_EQ(bytes.status().kind(), ErrorKind::unsupported) << bytes.status().message();
    EXPECT_EQ(attention_workspace(bridge.inputs, bridge.spec).status().kind(), ErrorKind::unsupported);
  }
}

// ---- The content shift ----

/// Attention of q + u is attention of q with the shift u: its gradient is the sum of those by q.
TEST(attention_backward_shift, is_the_sum_over_queries) {
  const ref::Shape shape{.batch = 2, .queries = 100, .keys = 140, .heads = 4, .key_heads = 2, .width = 12, .value_width = 8};
  const ref::Problem plain = random_problem(shape, 12);
  for (const std::int64_t shift_heads : {std::int64_t{4}, std::int64_t{1}}) {
    std::vector<double> u = Numbers(13).values(shift_heads * shape.width);
    ref::Problem shifted = plain;
    const auto at = [&](std::size_t n) {
      const auto d = static_cast<std::int64_t>(n) % shape.width;
      const auto h = static_cast<std::int64_t>(n) / shape.width % shape.heads;
      return static_cast<std::size_t>((shift_heads == 1 ? 0 : h) * shape.width + d);
    };
    for (std::size_t n = 0; n < shifted.q.size(); ++n) shifted.q[n] += u[at(n)];
    const ref::Values out_gradient = Numbers(14).values(shape.batch * shape.queries * shape.heads * shape.value_width);
    const ref::Gradients wanted = ref::backward(shifted, out_gradient);
    std::vector<double> sum(u.size(), 1);  // added to what is there
    for (std::size_t n = 0; n < wanted.q.size(); ++n) sum[at(n)] += wanted.q[n];

    Bridge bridge(plain, DType::f64);
    std::vector<double> is(u.size(), 1);
    bridge.spec.content_shift = view(static_cast<const double*>(u.data()), {1, 1, shift_heads, shape.width});
    bridge.gradients.content_shift = view(is.data(), {1, 1, shift_heads, shape.width});
    ASSERT_TRUE(bridge.forward().ok());
    ASSERT_TRUE(bridge.backward(out_gradient).ok());
    const ref::Gradients gradients = bridge.reference_gradients();
    EXPECT_LE(apart(gradients.q, wanted.q), 1e-12);
    EXPECT_LE(apart(gradients.k, wanted.k), 1e-12);
    EXPECT_LE(apart(is, sum), 1e-11);

    bridge.gradients.q = bridge.gradients.k = bridge.gradients.v = {};
    std::vector<double> alone(u.size(), 1);
    bridge.gradients.content_shift.data = alone.data();
    ASSERT_TRUE(bridge.backward(out_gradient).ok());
    EXPECT_EQ(alone, is);
  }
}

// ---- Nothing to do ----

TEST(attention_backward_empty, without_keys_gradients_are_zero) {
  Bridge bridge(random_problem({.batch = 2, .queries = 5, .keys = 0, .heads = 2, .key_heads = 1, .width = 8, .value_width = 8}, 15),
                DType::f32);
  ref::Values in(std::size_t{2} * 5 * 2 * 8, 1);
  ASSERT_TRUE(bridge.forward().ok());
  for (std::int64_t n = 0; n < 160; ++n) job::store_element(bridge.gradients.q.data, DType::f32, n, 7);
  const Status status = bridge.backward(in);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(bridge.reference_gradients().q, ref::Values(160, 0));
}

TEST(attention_backward_empty, without_queries_gradients_are_zero) {
  Bridge bridge(random_problem({.batch = 1, .queries = 0, .keys = 70, .heads = 2, .key_heads = 1, .width = 8, .value_width = 4}, 16),
                DType::f64);
  ASSERT_TRUE(bridge.forward().ok());
  for (std::int64_t n = 0; n < 560; ++n) job::store_element(bridge.gradients.k.data, DType::f64, n, 7);
  for (std::int64_t n = 0; n < 280; ++n) job::store_element(bridge.gradients.v.data, DType::f64, n, 7);
  ASSERT_TRUE(bridge.backward({}).ok());
  EXPECT_EQ(bridge.reference_gradients().k, ref::Values(560, 0));
  EXPECT_EQ(bridge.reference_gradients().v, ref::Values(280, 0));
}

TEST(attention_backward_empty, nothing_wanted_is_nothing_done) {
  Bridge bridge(random_problem({.batch = 1, .queries = 3, .keys = 4, .heads = 1, .key_heads = 1, .width = 8, .value_width = 4}, 17),
                DType::f32);
  bridge.gradients = {};
  ASSERT_TRUE(bridge.forward().ok());
  EXPECT_TRUE(bridge.backward(ref::Values(12, 1)).ok());
}

}  // namespace
}  // namespace phasor::test
