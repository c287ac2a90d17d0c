// SPDX-License-Identifier: Apache-2.0
// Gradients of every scheme's parameters against central differences of its diagonal; accumulation, head ranges, repeatability.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "bias_specs.hpp"

namespace phasor::test {
namespace {

Bias made(const BiasSpec& spec) {
  const Result<Bias> bias = Bias::make(spec);
  EXPECT_TRUE(bias.ok()) << bias.status().message();
  return *bias;
}

/// The parameters of a spec in the order of Bias::parameter_count.
struct ParameterList {
  std::vector<double*> of(std::vector<double>& list) const {
    std::vector<double*> out;
    for (double& x : list) out.push_back(&x);
    return out;
  }
  std::vector<double*> operator()(Alibi& s) const {
    if (s.slopes.empty()) s.slopes = made(s).slopes();
    return of(s.slopes);
  }
  std::vector<double*> operator()(Kerple& s) const {
    std::vector<double*> out = of(s.r1);
    for (double& x : s.r2) out.push_back(&x);
    return out;
  }
  std::vector<double*> operator()(Sandwich& /*s*/) const { return {}; }
  std::vector<double*> operator()(Fire& s) const {
    std::vector<double*> out = of(s.mlp.parameters);
    out.push_back(&s.c);
    out.push_back(&s.length);
    return out;
  }
  std::vector<double*> operator()(DynamicMlp& s) const { return of(s.mlp.parameters); }
  std::vector<double*> operator()(SwinV2& s) const { return of(s.mlp.parameters); }
  template <class Table>
  std::vector<double*> operator()(Table& s) const {
    return of(s.table);
  }
};

struct Range {
  std::int64_t first_distance;
  std::int64_t count;
  BiasPart part;
  std::int64_t heads;
};

/// Sum of the diagonal times given weights: what is differentiated.
double loss(const BiasSpec& spec, const Range& range, const std::vector<double>& weights) {
  std::vector<double> values(weights.size());
  EXPECT_TRUE(made(spec).diagonal(view(values.data(), {1, range.heads, 1, range.count}), range.first_distance, range.part).ok());
  double sum = 0;
  for (std::size_t i = 0; i < values.size(); ++i) sum += values[i] * weights[i];
  return sum;
}

void expect_central_differences(const NamedBias& named, const Range& range) {
  BiasSpec spec = named.spec;
  const std::vector<double*> parameters = std::visit(ParameterList(), spec);
  const Bias bias = made(spec);
  ASSERT_EQ(bias.parameter_count(), static_cast<std::int64_t>(parameters.size()));
  const std::vector<double> weights = numbers(static_cast<std::size_t>(range.heads * range.count), 77);
  std::vector<double> sum(parameters.size(), 0);
  ASSERT_TRUE(bias.gradient(sum, view(weights.data(), {1, range.heads, 1, range.count}), range.first_distance, range.part).ok());
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const double x = *parameters[i];
    constexpr double h = 0x1p-20;  // the cube of it, and the rounding of a loss of a few hundred over it, are below 1e-8
    *parameters[i] = x + h;
    const double above = loss(spec, range, weights);
    *parameters[i] = x - h;
    const double below = loss(spec, range, weights);
    *parameters[i] = x;
    EXPECT_NEAR(sum[i], (above - below) / (2 * h), 1e-7 * std::max(1.0, std::fabs(sum[i]))) << "parameter " << i;
  }
}

TEST(bias_gradient, is_the_central_difference_in_every_parameter_of_every_scheme) {
  for (const NamedBias& named : every_bias()) {
    SCOPED_TRACE(named.name);
    expect_central_differences(named, {-13, 27, {}, made(named.spec).heads()});
  }
}

TEST(bias_gradient, of_some_heads_is_the_central_difference_too) {
  for (const NamedBias& named : every_bias()) {
    SCOPED_TRACE(named.name);
    expect_central_differences(named, {-5, 11, {.first_head = 1}, 2});
  }
}

TEST(bias_gradient, of_fire_beyond_its_length_does_not_move_the_length) {
  const NamedBias fire = {"fire", Fire{.mlp = mlp_of({1, 7, 3}, Activation::relu, 21), .c = 0.7, .length = 4}};
  expect_central_differences(fire, {0, 30, {.query_position = 29}, 3});
  const Bias bias = made(fire.spec);
  std::vector<double> sum(static_cast<std::size_t>(bias.parameter_count()), 0);
  const std::vector<double> weights = numbers(90, 5);
  ASSERT_TRUE(bias.gradient(sum, view(weights.data(), {1, 3, 1, 30}), 0, {.query_position = 29}).ok());
  EXPECT_EQ(sum.back(), 0);
  EXPECT_NE(sum[sum.size() - 2], 0);
}

TEST(bias_gradient, adds_to_what_is_there_and_repeats_bit_for_bit) {
  for (const NamedBias& named : every_bias()) {
    SCOPED_TRACE(named.name);
    const Bias bias = made(named.spec);
    const std::vector<double> weights = numbers(static_cast<std::size_t>(bias.heads() * 9), 3);
    const ConstTensorView gradient = view(weights.data(), {1, bias.heads(), 1, 9});
    std::vector<double> once(static_cast<std::size_t>(bias.parameter_count()), 0);
    ASSERT_TRUE(bias.gradient(once, gradient, -4).ok());
    std::vector<double> again(once.size(), 0);
    ASSERT_TRUE(bias.gradient(again, gradient, -4).ok());
    EXPECT_EQ(once, again);
    ASSERT_TRUE(bias.gradient(again, gradient, -4).ok());
    for (std::size_t i = 0; i < once.size(); ++i) EXPECT_NEAR(again[i], 2 * once[i], 1e-13 * (1 + std::fabs(once[i])));
  }
}

TEST(bias_gradient, of_every_dtype_is_that_of_its_numbers) {
  for_each_dtype([](auto tag) {
    using T = typename decltype(tag)::type;
    const Bias bias = made(T5Buckets{.heads = 2, .buckets = 8, .max_distance = 20});
    const auto narrow = [](double x) { return Element<T>::narrow(static_cast<typename Element<T>::Value>(x)); };
    const std::vector<T> gradient = {narrow(1.5), narrow(-0.25), narrow(3), narrow(100), narrow(7), narrow(9)};  // (2, 2) of stride 4
    std::vector<double> sum(16, 0);
    ASSERT_TRUE(bias.gradient(sum, view(gradient.data(), {1, 2, 1, 2}, {8, 4, 1, 1}), 0).ok());
    std::vector<double> wanted(16, 0);
    wanted[0] = 1.5;
    wanted[1] = -0.25;
    wanted[8] = 7;
    wanted[9] = 9;
    EXPECT_EQ(sum, wanted);
  });
}

TEST(bias_gradient, of_a_list_of_another_size_is_an_error) {
  std::vector<double> sum(5, 0);
  const std::vector<double> gradient(6, 1);
  const Bias bias = made(Alibi{.heads = 6});
  EXPECT_EQ(bias.gradient(sum, view(gradient.data(), {1, 6, 1, 1}), 0).message(),
            "Bias::gradient: sum has 5 entries, the scheme has 6 parameters");
  EXPECT_EQ(sum, std::vector<double>(5, 0));
}

TEST(bias_gradient, goes_to_a_view_of_either_dtype) {
  for (const NamedBias& named : every_bias()) {
    SCOPED_TRACE(named.name);
    const Bias bias = made(named.spec);
    const std::vector<double> weights = numbers(static_cast<std::size_t>(bias.heads()) * 9, 31);
    const ConstTensorView gradient = view(weights.data(), {1, bias.heads(), 1, 9});
    const std::int64_t count = bias.parameter_count();
    std::vector<double> wanted(static_cast<std::size_t>(count), 0.25);
    ASSERT_TRUE(bias.gradient(wanted, gradient, -4).ok());
    std::vector<float> rounded(wanted.size(), 0.25F);
    ASSERT_TRUE(bias.gradient(view(rounded.data(), {1, 1, 1, count}), gradient, -4).ok());
    EXPECT_EQ(rounded, std::vector<float>(wanted.begin(), wanted.end())) << "summed in float64, rounded once";
  }
}

TEST(bias_gradient, goes_where_the_diagonal_is_and_nowhere_into_it) {
  std::vector<double> memory(12, 1);
  const Bias bias = made(Alibi{.heads = 6});
  const ConstTensorView gradient = view(memory.data(), {1, 6, 1, 1});
  TensorView sum = view(memory.data() + 6, {1, 1, 1, 6});
  sum.device = {DeviceKind::cuda, 2};
  EXPECT_EQ(bias.gradient(sum, gradient, 0).message(), "Bias::gradient: sum is on cuda:2, wanted cpu, where the call's first tensor is");
  sum.device = {};
  sum.dtype = DType::f16;
  EXPECT_EQ(bias.gradient(sum, gradient, 0).message(), "Bias::gradient: sum is f16, wanted f32 or f64");
  EXPECT_EQ(bias.gradient(std::span(memory).subspan(5, 6), gradient, 0).message(),
            "Bias::gradient: sum overlaps the diagonal, wanted memory apart");
  EXPECT_EQ(memory, std::vector<double>(12, 1));
}

}  // namespace
}  // namespace phasor::test
