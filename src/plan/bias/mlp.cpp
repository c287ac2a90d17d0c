// SPDX-License-Identifier: Apache-2.0
// A small perceptron, layer by layer.
#include "plan/bias/mlp.hpp"

#include <algorithm>

#include "math/elementary.hpp"

namespace phasor::plan {

namespace {

/// What all layers read, and what the widest reads or gives.
struct Sizes {
  std::size_t read = 0;
  std::size_t widest = 0;
};
Sizes sizes_of(const MlpSource& mlp) {
  Sizes sizes;
  for (std::size_t l = 0; l + 1 < static_cast<std::size_t>(mlp.width_count); ++l) {
    sizes.read += static_cast<std::size_t>(mlp.widths[l]);
    sizes.widest = std::max(sizes.widest, static_cast<std::size_t>(std::max(mlp.widths[l], mlp.widths[l + 1])));
  }
  return sizes;
}

}  // namespace

std::size_t MlpPass::memory_size(const MlpSource& mlp) {
  const Sizes sizes = sizes_of(mlp);
  return 2 * (sizes.read + sizes.widest);
}

MlpPass::MlpPass(const MlpSource& mlp, std::span<double> memory) : mlp_(mlp), last_(first_layer()) {
  const Sizes sizes = sizes_of(mlp);
  before_ = memory.data();
  after_ = before_ + sizes.read;
  above_ = after_ + sizes.read;
  gradient_ = above_ + sizes.widest;
  for (std::size_t l = 0; l + 1 < layer_count(); ++l) last_ = next(last_, l);
}

MlpPass::Layer MlpPass::first_layer() const {
  const auto in = static_cast<std::size_t>(mlp_.widths[0]);
  const auto out = static_cast<std::size_t>(mlp_.widths[1]);
  return {in, out, 0, 0, in * out};
}

MlpPass::Layer MlpPass::next(const Layer& layer, std::size_t l) const {
  const auto out = static_cast<std::size_t>(mlp_.widths[l + 2]);
  const std::size_t weights = layer.bias + layer.out;
  return {layer.out, out, layer.read + layer.in, weights, weights + layer.out * out};
}

MlpPass::Layer MlpPass::previous(const Layer& layer, std::size_t l) const {
  const auto in = static_cast<std::size_t>(mlp_.widths[l - 1]);
  const std::size_t bias = layer.weights - layer.in;
  return {in, layer.in, layer.read - in, bias - in * layer.in, bias};
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
  Layer layer = first_layer();
  std::copy_n(inputs.begin(), layer.in, after_);
  for (std::size_t l = 0; l + 1 < layer_count(); ++l) {
    const double* weight = mlp_.parameters + layer.weights;
    const double* const bias = mlp_.parameters + layer.bias;
    const double* const in = after_ + layer.read;
    const std::size_t out = layer.read + layer.in;
    for (std::size_t o = 0; o < layer.out; ++o) {
      double sum = bias[o];
      for (std::size_t i = 0; i < layer.in; ++i) sum += *weight++ * in[i];
      before_[out + o] = sum;
      after_[out + o] = activate(sum);
    }
    layer = next(layer, l);
  }
}

double MlpPass::output(std::int64_t head) const {
  const auto o = static_cast<std::size_t>(head);
  const double* weight = mlp_.parameters + last_.weights + o * last_.in;
  double sum = mlp_.parameters[last_.bias + o];
  for (std::size_t i = 0; i < last_.in; ++i) sum += *weight++ * after_[last_.read + i];
  return sum;
}

void MlpPass::backward(std::span<const double> output_gradient, std::int64_t first_head, std::span<double> sum) {
  std::copy(output_gradient.begin(), output_gradient.end(), above_);
  std::size_t count = output_gradient.size();
  auto first = static_cast<std::size_t>(first_head);  // above_ is of outputs first, first + 1, ... of the layer
  Layer layer = last_;
  for (std::size_t l = layer_count(); l-- > 0;) {
    std::fill_n(gradient_, layer.in, 0.0);
    for (std::size_t o = 0; o < count; ++o) {
      const std::size_t row = layer.weights + (first + o) * layer.in;
      for (std::size_t i = 0; i < layer.in; ++i) {
        sum[row + i] += above_[o] * after_[layer.read + i];
        gradient_[i] += above_[o] * mlp_.parameters[row + i];
      }
      sum[layer.bias + first + o] += above_[o];
    }
    if (l == 0) return;
    for (std::size_t i = 0; i < layer.in; ++i) above_[i] = gradient_[i] * slope(before_[layer.read + i]);
    count = layer.in;
    first = 0;
    layer = previous(layer, l);
  }
}

}  // namespace phasor::plan
