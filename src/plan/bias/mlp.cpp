// SPDX-License-Identifier: Apache-2.0
// A small perceptron, layer by layer.
#include "plan/bias/mlp.hpp"

#include <algorithm>

#include "math/elementary.hpp"

namespace phasor::plan {

MlpPass::MlpPass(const MlpSource& mlp) : mlp_(mlp) {
  std::size_t next = 0;
  for (std::int64_t l = 0; l + 1 < mlp.width_count; ++l) {
    const auto in = static_cast<std::size_t>(mlp.widths[l]);
    const auto out = static_cast<std::size_t>(mlp.widths[l + 1]);
    places_.push_back({next, next + in * out});
    next += (in + 1) * out;
    before_.emplace_back(in);
    after_.emplace_back(in);
    gradients_.emplace_back(in);
  }
}

double MlpPass::activate(double x) const {
  if (mlp_.activation == Activation::relu) return x > 0 ? x : 0;
  return x * math::sigmoid(x);
}

double MlpPass::slope(double x) const {
  if (mlp_.activation == Activation::relu) return x > 0 ? 1 : 0;
  const double s = math::sigmoid(x);
  return s * (1 + x * (1 - s));
}

void MlpPass::forward(std::span<const double> inputs) {
  std::copy_n(inputs.begin(), after_[0].size(), after_[0].begin());
  for (std::size_t l = 0; l + 1 < after_.size(); ++l) {
    const double* weight = mlp_.parameters + places_[l].weights;
    const double* bias = mlp_.parameters + places_[l].bias;
    for (std::size_t o = 0; o < after_[l + 1].size(); ++o) {
      double sum = bias[o];
      for (const double x : after_[l]) sum += *weight++ * x;
      before_[l + 1][o] = sum;
      after_[l + 1][o] = activate(sum);
    }
  }
}

double MlpPass::output(std::int64_t head) const {
  const auto o = static_cast<std::size_t>(head);
  const double* weight = mlp_.parameters + places_.back().weights + o * after_.back().size();
  double sum = mlp_.parameters[places_.back().bias + o];
  for (const double x : after_.back()) sum += *weight++ * x;
  return sum;
}

void MlpPass::backward(std::span<const double> output_gradient, std::int64_t first_head, std::span<double> sum) {
  std::vector<double> above(output_gradient.begin(), output_gradient.end());
  auto first = static_cast<std::size_t>(first_head);  // `above` is of outputs first, first + 1, ... of the layer
  for (std::size_t l = after_.size(); l-- > 0;) {
    const std::size_t in = after_[l].size();
    std::fill(gradients_[l].begin(), gradients_[l].end(), 0.0);
    for (std::size_t o = 0; o < above.size(); ++o) {
      const std::size_t row = places_[l].weights + (first + o) * in;
      for (std::size_t i = 0; i < in; ++i) {
        sum[row + i] += above[o] * after_[l][i];
        gradients_[l][i] += above[o] * mlp_.parameters[row + i];
      }
      sum[places_[l].bias + first + o] += above[o];
    }
    if (l == 0) return;
    above.resize(in);
    for (std::size_t i = 0; i < in; ++i) above[i] = gradients_[l][i] * slope(before_[l][i]);
    first = 0;
  }
}

}  // namespace phasor::plan
