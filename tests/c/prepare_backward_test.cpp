// SPDX-License-Identifier: Apache-2.0
// Gradients of prepare_attention in C: bitwise those of C++.
#include "c/prepare_support.hpp"

namespace phasor::test {
namespace {

TEST(CPrepareBackward, gradients_are_those_of_cpp) {
  const Step step;
  const PrepareSpec same_spec = {.q_norm = {.kind = HeadNorm::Kind::rms, .weight = view_of(step.weight, {1, 1, kHeads, 10}), .width = 10},
                                 .v_norm = {.kind = HeadNorm::Kind::l2}};
  const CTensor<float> by_q({1, kTokens, kHeads, kDim}, sample(288, 6)), by_k({1, kTokens, 1, kDim}, sample(96, 7)),
      by_v({1, kTokens, 1, kDim}, sample(96, 8));
  std::vector<float> want_q(288), want_k(96), want_v(96), want_weight(30), want_factors(kTokens);
  PrepareGradients same = {{view_of(by_q, kQ), view(want_q.data(), kQ), view(want_weight.data(), {1, 1, kHeads, 10})},
                           {view_of(by_k, kK), view(want_k.data(), kK), {}},
                           {view_of(by_v, kK), view(want_v.data(), kK), {}},
                           {},
                           view(want_factors.data(), {1, kTokens, 1, 1})};
  const std::int64_t want_numbers = *prepare_attention_backward_workspace(step.same_inputs(), same, same_spec);
  std::vector<double> memory(static_cast<std::size_t>(want_numbers));
  same.workspace = view(memory.data(), {1, 1, 1, want_numbers});
  const auto same_rotary = *Rotary::make({.head_dim = kDim, .base = 500});
  const Status status = prepare_attention_backward(step.same_inputs(), {{&same_rotary, 1}, step.positions(), {}}, same, same_spec);
  ASSERT_TRUE(status.ok()) << status.message();

  auto q_norm = sized<phasor_head_norm>();
  q_norm.kind = PHASOR_NORM_RMS;
  q_norm.weight = step.weight.get();
  q_norm.width = 10;
  auto v_norm = sized<phasor_head_norm>();
  v_norm.kind = PHASOR_NORM_L2;
  auto spec = sized<phasor_prepare_spec>();
  spec.q_norm = &q_norm;
  spec.v_norm = &v_norm;
  const CTensor<float> q({1, kTokens, kHeads, kDim}), k({1, kTokens, 1, kDim}), v({1, kTokens, 1, kDim}), weight({1, 1, kHeads, 10}),
      factors({1, kTokens, 1, 1});
  auto gradients = sized<phasor_prepare_gradients>();
  gradients.q = {by_q.get(), q.get(), weight.get()};
  gradients.k = {by_k.get(), k.get(), nullptr};
  gradients.v = {by_v.get(), v.get(), nullptr};
  gradients.by_query_factors = factors.get();
  const phasor_prepare_inputs inputs = step.inputs();
  std::int64_t count = -1;
  succeeds([&](phasor_error* error) { return phasor_prepare_attention_backward_workspace(&inputs, &gradients, &spec, &count, error); });
  EXPECT_EQ(count, want_numbers);
  ASSERT_GT(count, 0);
  const RotaryPointer rotary = rotary_of(kDim, 500);
  const phasor_rotary* const one = rotary.get();
  auto rotation = sized<phasor_prepare_rotation>();
  rotation.list = {&one, 1, nullptr};
  rotation.positions.tensor = step.at.get();
  const auto backward = [&](phasor_error* error) {
    return phasor_prepare_attention_backward(&inputs, &rotation, &gradients, &spec, error);
  };
  EXPECT_NE(failure(PHASOR_INVALID, backward).find("workspace"), std::string::npos);
  EXPECT_EQ(q.values, std::vector<float>(288));
  const CTensor<double> workspace({count});
  gradients.workspace = workspace.get();
  succeeds(backward);
  EXPECT_EQ(q.values, want_q);
  EXPECT_EQ(k.values, want_k);
  EXPECT_EQ(v.values, want_v);
  EXPECT_EQ(weight.values, want_weight);
  EXPECT_EQ(factors.values, want_factors);
}

}  // namespace
}  // namespace phasor::test
