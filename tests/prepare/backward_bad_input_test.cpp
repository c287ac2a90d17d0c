// SPDX-License-Identifier: Apache-2.0
// A call of prepare_attention_backward that does not fit is an error that says where, what is and what is wanted; nothing is written then.
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "prepare/spoiled.hpp"

namespace phasor::test {
namespace {

/// A call that is right; each case spoils one thing. q (2, 3, 3, 16), k and v (2, 3, 1, 16).
struct BackwardAttempt {
  static constexpr const char* kBegins = "prepare_attention_backward: ";
  std::vector<float> memory = std::vector<float>(4000, 0.5F);
  std::vector<double> work = std::vector<double>(200, 0.5);
  std::vector<Rotary> rotaries = {*Rotary::make({.head_dim = 16}), *Rotary::make({.head_dim = 16, .base = 100})};
  PrepareInputs inputs = {
      view(memory.data(), {2, 3, 3, 16}), view(memory.data() + 400, {2, 3, 1, 16}), view(memory.data() + 600, {2, 3, 1, 16}), {}};
  PrepareRotation rotation = {{rotaries.data(), 1}, positions_from(5), {}};
  PrepareGradients gradients;
  PrepareSpec spec;

  BackwardAttempt() {
    gradients.q = {view(memory.data() + 1000, {2, 3, 3, 16}), view(memory.data() + 2000, {2, 3, 3, 16}),
                   view(memory.data() + 3000, {1, 1, 3, 16})};
    gradients.k = {view(memory.data() + 1400, {2, 3, 1, 16}), view(memory.data() + 2400, {2, 3, 1, 16}), {}};
    gradients.v = {view(memory.data() + 1600, {2, 3, 1, 16}), view(memory.data() + 2600, {2, 3, 1, 16}), {}};
    gradients.workspace = view(work.data(), {1, 1, 1, 66});  // 3 operands of 6 tokens, and 3 heads of 16
    spec.q_norm = {.kind = HeadNorm::Kind::rms, .over = HeadNorm::Over::all_heads, .weight = view(memory.data() + 3100, {1, 1, 3, 16})};
  }
  Status run() const { return prepare_attention_backward(inputs, rotation, gradients, spec); }
  std::pair<std::vector<float>, std::vector<double>> held() const { return {memory, work}; }
};

void check_cases(const std::vector<Spoiled<BackwardAttempt>>& cases, ErrorKind kind = ErrorKind::invalid) { expect_refused(cases, kind); }

TEST(BackwardInput, gradients_by_factors_that_do_not_fit_are_refused) {
  const auto with_factors = [](BackwardAttempt& c) {
    c.inputs.query_factors = view(c.memory.data() + 3300, {2, 3, 1, 1});
    c.gradients.by_query_factors = view(c.memory.data() + 3400, {2, 3, 1, 1});
    c.gradients.workspace = view(c.work.data(), {1, 1, 1, 84});  // 6 tokens of 3 heads more
  };
  BackwardAttempt right;
  with_factors(right);
  EXPECT_TRUE(right.run().ok()) << right.run().message();
  check_cases({
      {"by_query_factors is given and q or query_factors are not, wanted all three",
       [&](BackwardAttempt& c) {
         with_factors(c);
         c.inputs.query_factors = {};
       }},
      {"by_query_factors is f16 of shape (2, 3, 1, 1), wanted f32 of (2, 3, 1, 1)",
       [&](BackwardAttempt& c) {
         with_factors(c);
         c.gradients.by_query_factors.dtype = DType::f16;
       }},
      {"by_query_factors is f32 of shape (2, 2, 1, 1), wanted f32 of (2, 3, 1, 1)",
       [&](BackwardAttempt& c) {
         with_factors(c);
         c.gradients.by_query_factors.shape[1] = 2;
       }},
      {"by_query_factors overlaps query_factors",
       [&](BackwardAttempt& c) {
         with_factors(c);
         c.gradients.by_query_factors.data = c.memory.data() + 3302;
       }},
      {"by_query_factors has strides by which elements repeat",
       [&](BackwardAttempt& c) {
         with_factors(c);
         c.gradients.by_query_factors.strides[1] = 0;
       }},
      {"wanted f64 of (1, 1, 1, 84) at least",
       [&](BackwardAttempt& c) {
         with_factors(c);
         c.gradients.workspace.shape[3] = 83;
       }},
  });
}

TEST(BackwardInput, tensors_that_do_not_fit_are_refused) {
  check_cases({
      {"neither q nor k nor v is given",
       [](BackwardAttempt& c) {
         c.inputs = {};
         c.gradients = {};
         c.spec = {};
       }},
      {"q has 4294967296 x 4294967296 tokens, wanted 2^56 at most",
       [](BackwardAttempt& c) {
         const std::int64_t many = std::int64_t{1} << 32;
         c.inputs = {c.inputs.q, {}, {}, {}};
         c.inputs.q.shape = {many, many, 3, 16};
         c.inputs.q.strides = {0, 0, 16, 1};
         c.gradients = {{c.inputs.q, {}, {}}, {}, {}, {}};
       }},
      {"v is not given and has a gradient, wanted both", [](BackwardAttempt& c) { c.inputs.v = {}; }},
      {"by_output of q has null data", [](BackwardAttempt& c) { c.gradients.q.by_output.data = nullptr; }},
      {"by_input of v has null data", [](BackwardAttempt& c) { c.gradients.v.by_input.data = nullptr; }},
      {"by_output of k is bf16 of shape (2, 3, 1, 16), wanted f32 of (2, 3, 1, 16)",
       [](BackwardAttempt& c) { c.gradients.k.by_output.dtype = DType::bf16; }},
      {"by_input of q is f32 of shape (2, 3, 2, 16), wanted f32 of (2, 3, 3, 16)",
       [](BackwardAttempt& c) { c.gradients.q.by_input.shape[2] = 2; }},
      {"q is f64, wanted f32, f16 or bf16",
       [](BackwardAttempt& c) {
         c.inputs = {c.inputs.q, {}, {}, {}};
         c.gradients.k = c.gradients.v = {};
         c.inputs.q.dtype = c.gradients.q.by_output.dtype = c.gradients.q.by_input.dtype = DType::f64;
       }},
      {"by_output of v on cuda:1, wanted cpu", [](BackwardAttempt& c) { c.gradients.v.by_output.device = {DeviceKind::cuda, 1}; }},
      {"q has head_dim 8, the spec wants 16",
       [](BackwardAttempt& c) {
         c.inputs.q.shape[3] = c.gradients.q.by_output.shape[3] = c.gradients.q.by_input.shape[3] = 8;
         c.spec = {};
         c.gradients.q.by_weight = {};
       }},
      {"by_input of v has strides by which elements repeat", [](BackwardAttempt& c) { c.gradients.v.by_input.strides[0] = 0; }},
      {"spec_of has 0 entries, wanted 2", [](BackwardAttempt& c) { c.rotation.rotaries = c.rotaries; }},
      {"query_factors are f32 of shape (2, 2, 1, 1)",
       [](BackwardAttempt& c) { c.inputs.query_factors = view(c.memory.data(), {2, 2, 1, 1}); }},
  });
}

TEST(BackwardInput, weights_that_do_not_fit_are_refused) {
  check_cases({
      {"by_weight of k is given and k has no weight",
       [](BackwardAttempt& c) { c.gradients.k.by_weight = view(c.memory.data() + 3500, {1, 1, 1, 16}); }},
      {"by_weight of q is f32 of shape (1, 1, 1, 16), wanted f32 of (1, 1, 3, 16)",
       [](BackwardAttempt& c) { c.gradients.q.by_weight.shape[2] = 1; }},
      {"by_weight of q is bf16 of shape (1, 1, 3, 16), wanted f32",
       [](BackwardAttempt& c) { c.gradients.q.by_weight.dtype = DType::bf16; }},
      {"by_weight of q has strides by which elements repeat", [](BackwardAttempt& c) { c.gradients.q.by_weight.strides[2] = 0; }},
      {"weight of q's norm has shape (1, 1, 3, 15), wanted (1, 1, 1 or 3, 16)",
       [](BackwardAttempt& c) { c.spec.q_norm.weight.shape[3] = c.gradients.q.by_weight.shape[3] = 15; }},
      {"workspace is f64 of shape (1, 1, 1, 65), wanted f64 of (1, 1, 1, 66) at least",
       [](BackwardAttempt& c) { c.gradients.workspace.shape[3] = 65; }},
      {"workspace has null data", [](BackwardAttempt& c) { c.gradients.workspace.data = nullptr; }},
      {"workspace is f32", [](BackwardAttempt& c) { c.gradients.workspace.dtype = DType::f32; }},
      {"workspace on cuda:0, wanted cpu", [](BackwardAttempt& c) { c.gradients.workspace.device = {DeviceKind::cuda, 0}; }},
  });
  check_cases({{"norm of q is over all heads and after the rotation",
                [](BackwardAttempt& c) { c.spec.order = PrepareSpec::Order::rotation_first; }}},
              ErrorKind::unsupported);
}

TEST(BackwardInput, memory_that_is_not_apart_is_refused) {
  check_cases({
      {"overlaps", [](BackwardAttempt& c) { c.gradients.q.by_input.data = c.memory.data() + 16; }},  // q's own, shifted
      {"by_input of q overlaps by_output of q", [](BackwardAttempt& c) { c.gradients.q.by_input.data = c.memory.data() + 1016; }},
      {"by_input of v overlaps by_output of k", [](BackwardAttempt& c) { c.gradients.v.by_input.data = c.memory.data() + 1400; }},
      {"overlaps", [](BackwardAttempt& c) { c.gradients.v.by_input.data = c.memory.data() + 2400; }},  // k's result
      {"by_weight of q overlaps q", [](BackwardAttempt& c) { c.gradients.q.by_weight.data = c.memory.data(); }},
      {"by_weight of q overlaps the weight of q's norm", [](BackwardAttempt& c) { c.gradients.q.by_weight.data = c.memory.data() + 3100; }},
      {"by_weight of q overlaps by_input of q", [](BackwardAttempt& c) { c.gradients.q.by_weight.data = c.memory.data() + 2000; }},
      {"workspace overlaps by_output of k",
       [](BackwardAttempt& c) { c.gradients.workspace = {c.memory.data() + 1400, DType::f64, {1, 1, 1, 66}, {0, 0, 0, 1}, {}}; }},
      {"workspace overlaps positions",
       [](BackwardAttempt& c) { c.rotation.positions = positions(reinterpret_cast<const std::int64_t*>(c.work.data() + 60), 1, 2, 3); }},
      {"by_weight of q overlaps positions",
       [](BackwardAttempt& c) {
         c.rotation.positions = positions(reinterpret_cast<const std::int32_t*>(c.memory.data() + 3040), 1, 2, 3);
       }},
      {"workspace overlaps spec_of",
       [](BackwardAttempt& c) {
         std::fill_n(c.work.data(), 2, 0.0);  // indices of the first
         c.rotation.rotaries = c.rotaries;
         c.rotation.spec_of = integers(reinterpret_cast<const std::int64_t*>(c.work.data()), 2);
       }},
  });
}

TEST(BackwardInput, the_workspace_is_not_told_for_what_does_not_fit) {
  BackwardAttempt call;
  call.gradients.k.by_output.shape[1] = 2;
  const Result<std::int64_t> workspace = prepare_attention_backward_workspace(call.inputs, call.gradients, call.spec);
  EXPECT_EQ(workspace.status().message(),
            "prepare_attention_backward: by_output of k is f32 of shape (2, 2, 1, 16), wanted f32 of (2, 3, 1, 16)");
}

}  // namespace
}  // namespace phasor::test
