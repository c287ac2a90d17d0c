// SPDX-License-Identifier: Apache-2.0
// Parameters of a bias that come with the call as a tensor, and the tensor that their gradient goes to.
#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "attention/support/table_problems.hpp"
#include "bias_specs.hpp"

namespace phasor::test {
namespace {

ref::Problem problem_of(std::int64_t tokens, std::int64_t heads) {
  return random_problem({.batch = 2, .queries = tokens, .keys = tokens, .heads = heads, .key_heads = 1, .width = 5, .value_width = 3}, 53);
}

/// Forward, then backward.
void run(Bridge& bridge) {
  const Status forward = bridge.forward();
  ASSERT_TRUE(forward.ok()) << forward.message();
  Numbers random(3);
  const Status backward = bridge.backward(random.values(static_cast<std::int64_t>(bridge.output().out.size())));
  ASSERT_TRUE(backward.ok()) << backward.message();
}

/// A table in float32 with strides of its own is the bias made of the same numbers, bit for bit; its gradient may go to float32.
TEST(bias_parameters, come_with_the_call) {
  for (const NamedBias& named : every_bias()) {
    const Result<Bias> bias = Bias::make(named.spec);
    ASSERT_TRUE(bias.ok()) << named.name;
    const std::int64_t count = bias->parameter_count();
    if (count == 0 || has_window(named.spec)) continue;
    Numbers random(7);
    std::vector<float> given(static_cast<std::size_t>(3 * count));
    std::vector<double> numbers(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = given[3 * i] = static_cast<float>(0.2 + 0.1 * random.uniform());
    const Result<Bias> other = bias->with_parameters(numbers);
    ASSERT_TRUE(other.ok()) << named.name << ": " << other.status().message();
    const ref::Problem p = problem_of(12, bias->heads());
    Bridge made(p, DType::f32);
    std::vector<double> sum(numbers.size(), 0);
    made.spec.terms = {BiasTerm{.bias = *other}};
    made.gradients.terms = {{.parameters = list_view(sum)}};
    Bridge called(p, DType::f32);
    std::vector<float> narrow(numbers.size(), 1);
    called.spec.terms = {
        BiasTerm{.bias = *bias, .parameters = view(static_cast<const float*>(given.data()), {1, 1, 1, count}, {0, 0, 0, 3})}};
    called.gradients.terms = {{.parameters = view(narrow.data(), {1, 1, 1, count})}};
    run(made);
    run(called);
    EXPECT_EQ(called.output().out, made.output().out) << named.name;
    EXPECT_EQ(called.reference_gradients().q, made.reference_gradients().q) << named.name;
    for (std::size_t i = 0; i < sum.size(); ++i) EXPECT_EQ(narrow[i], static_cast<float>(1 + sum[i])) << named.name << " " << i;
  }
}

Status refusal(const BiasTerm& term, const TermGradient& gradient = {}) {
  Bridge bridge(problem_of(10, 2), DType::f32);
  bridge.spec.terms = {term};
  bridge.gradients.terms = {gradient};
  return attention_backward_workspace(bridge.inputs, bridge.spec, bridge.gradients).status();
}

TEST(bias_parameters, that_do_not_fit_are_refused_with_words) {
  const Bias six = *Bias::make(Alibi{.heads = 6});
  std::vector<double> parameters(5);
  EXPECT_EQ(refusal({six}, {.parameters = list_view(parameters)}).message(),
            "attention_backward: terms[0]: the gradient of parameters has shape (1, 1, 1, 5), wanted (1, 1, 1, 6)");
  EXPECT_EQ(refusal({.bias = six, .parameters = list_view(parameters)}).message(),
            "attention_backward: terms[0]: parameters has 5 on its last axis, wanted 6");
  std::vector<double> slopes(6, 0.5);
  slopes[3] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(refusal({.bias = six, .parameters = list_view(slopes)}).message(),
            "attention_backward: terms[0]: parameters: Alibi: slopes[3] is nan, wanted a finite number, at most 2^256 either way");
  std::vector<std::uint16_t> narrow(6);
  EXPECT_EQ(refusal({six}, {.parameters = {narrow.data(), DType::f16, {1, 1, 1, 6}, {6, 6, 6, 1}}}).message(),
            "attention_backward: terms[0]: the gradient of parameters is f16, wanted f32 or f64");
  const Status elsewhere =
      refusal({.bias = six, .parameters = {slopes.data(), DType::f64, {1, 1, 1, 6}, {6, 6, 6, 1}, {DeviceKind::cuda, 0}}});
  EXPECT_NE(elsewhere.message().find("terms[0].parameters is on cuda:0, wanted cpu"), std::string::npos) << elsewhere.message();
}

}  // namespace
}  // namespace phasor::test
