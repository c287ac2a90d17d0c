// SPDX-License-Identifier: Apache-2.0
// A small perceptron, layer by layer.
#include "plan/bias/mlp.hpp"

#include <algorithm>

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

MlpPass::MlpPass(const MlpSource& mlp, std::span<double> memory) : mlp_(mlp), last_(last_layer(mlp)) {
  const Sizes sizes = sizes_of(mlp);
  before_ = memory.data();
  after_ = before_ + sizes.read;
  above_ = after_ + sizes.read;
  gradient_ = above_ + sizes.widest;
}

void MlpPass::forward(std::span<const double> inputs) {
  MlpLayer layer = first_layer(mlp_);
  std::copy_n(inputs.begin(), layer.in, after_);
  for (std::int64_t l = 0; l + 1 < layer_count(mlp_); ++l) {
    const std::int64_t out = layer.read + layer.in;
    for (std::int64_t o = 0; o < layer.out; ++o) {
      before_[out + o] = unit_sum(mlp_, layer, o, after_ + layer.read);
      after_[out + o] = activate(mlp_.activation, before_[out + o]);
    }
    layer = next_layer(mlp_, layer, l);
  }
}

double MlpPass::output(std::int64_t head) const { return unit_sum(mlp_, last_, head, after_ + last_.read); }

void MlpPass::backward(std::span<const double> output_gradient, std::int64_t first_head, std::span<double> sum) {
  std::copy(output_gradient.begin(), output_gradient.end(), above_);
  auto count = static_cast<std::int64_t>(output_gradient.size());
  std::int64_t first = first_head;  // above_ is of outputs first, first + 1, ... of the layer
  MlpLayer layer = last_;
  for (std::int64_t l = layer_count(mlp_); l-- > 0;) {
    std::fill_n(gradient_, layer.in, 0.0);
    for (std::int64_t o = 0; o < count; ++o) {
      const std::int64_t row = layer.weights + (first + o) * layer.in;
      double* const to = sum.data() + row;
      for (std::int64_t i = 0; i < layer.in; ++i) {
        to[i] += above_[o] * after_[layer.read + i];
        gradient_[i] += above_[o] * mlp_.parameters[row + i];
      }
      sum[static_cast<std::size_t>(layer.bias + first + o)] += above_[o];
    }
    if (l == 0) return;
    for (std::int64_t i = 0; i < layer.in; ++i) above_[i] = gradient_[i] * activation_slope(mlp_.activation, before_[layer.read + i]);
    count = layer.in;
    first = 0;
    layer = previous_layer(mlp_, layer, l);
  }
}

}  // namespace phasor::plan
