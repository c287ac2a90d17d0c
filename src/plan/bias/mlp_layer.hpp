// SPDX-License-Identifier: Apache-2.0
// One layer of a perceptron: where its numbers lie, and what one unit of it computes, for every device. Sums in the order of the inputs.
#pragma once

#include <cstdint>

#include "math/elementary.hpp"
#include "plan/bias/source.hpp"

namespace phasor::plan {

/// How many numbers a layer reads and gives, where it reads among those that all layers read, and where W and b begin among the parameters.
struct MlpLayer {
  std::int64_t in;
  std::int64_t out;
  std::int64_t read;
  std::int64_t weights;
  std::int64_t bias;
};

PHASOR_HD inline std::int64_t layer_count(const MlpSource& mlp) { return mlp.width_count - 1; }
PHASOR_HD inline MlpLayer first_layer(const MlpSource& mlp) { return {mlp.widths[0], mlp.widths[1], 0, 0, mlp.widths[0] * mlp.widths[1]}; }
/// The layer after, and before, layer `l`.
PHASOR_HD inline MlpLayer next_layer(const MlpSource& mlp, const MlpLayer& layer, std::int64_t l) {
  const std::int64_t out = mlp.widths[l + 2];
  const std::int64_t weights = layer.bias + layer.out;
  return {layer.out, out, layer.read + layer.in, weights, weights + layer.out * out};
}
PHASOR_HD inline MlpLayer previous_layer(const MlpSource& mlp, const MlpLayer& layer, std::int64_t l) {
  const std::int64_t in = mlp.widths[l - 1];
  const std::int64_t bias = layer.weights - layer.in;
  return {in, layer.in, layer.read - in, bias - in * layer.in, bias};
}
PHASOR_HD inline MlpLayer last_layer(const MlpSource& mlp) {
  MlpLayer layer = first_layer(mlp);
  for (std::int64_t l = 0; l + 1 < layer_count(mlp); ++l) layer = next_layer(mlp, layer, l);
  return layer;
}

/// What unit `o` of a layer sums.
PHASOR_HD inline double unit_sum(const MlpSource& mlp, const MlpLayer& layer, std::int64_t o, const double* in) {
  const double* const weight = mlp.parameters + layer.weights + o * layer.in;
  double sum = mlp.parameters[layer.bias + o];
  for (std::int64_t i = 0; i < layer.in; ++i) sum += weight[i] * in[i];
  return sum;
}

PHASOR_HD inline double activate(Activation activation, double x) {
  if (activation == Activation::relu) return x > 0 ? x : 0;
  return x * math::sigmoid(x);
}
/// The derivative of it.
PHASOR_HD inline double activation_slope(Activation activation, double x) {
  if (activation == Activation::relu) return x > 0 ? 1 : 0;
  const double s = math::sigmoid(x);
  return s * (1 + x * (1 - s));
}

}  // namespace phasor::plan
