// SPDX-License-Identifier: Apache-2.0
// A small perceptron on float64, forward and backward, sums in the order of its inputs. It works in memory that the caller has: kernels
// must not allocate.
#pragma once

#include <cstddef>
#include <span>

#include "plan/bias/source.hpp"

namespace phasor::plan {

class MlpPass {
 public:
  /// Numbers that a pass works in.
  static std::size_t memory_size(const MlpSource& mlp);

  MlpPass(const MlpSource& mlp, std::span<double> memory);

  /// Everything but the last layer.
  void forward(std::span<const double> inputs);
  /// The last layer's output for one head, after forward.
  double output(std::int64_t head) const;
  /// Adds the gradient of the parameters, from that of the outputs of the heads from first_head on. The inputs' is in input_gradient.
  void backward(std::span<const double> output_gradient, std::int64_t first_head, std::span<double> sum);
  double input_gradient(std::size_t input) const { return gradient_[input]; }

 private:
  /// A layer: how many numbers it reads and gives, where it reads, and where W and b begin among the parameters.
  struct Layer {
    std::size_t in;
    std::size_t out;
    std::size_t read;
    std::size_t weights;
    std::size_t bias;
  };
  std::size_t layer_count() const { return static_cast<std::size_t>(mlp_.width_count) - 1; }
  Layer first_layer() const;
  /// The layer after, and before, layer `l`.
  Layer next(const Layer& layer, std::size_t l) const;
  Layer previous(const Layer& layer, std::size_t l) const;
  double activate(double x) const;
  double slope(double x) const;

  MlpSource mlp_;
  Layer last_;
  double* before_;    // the activation: what each layer reads, side by side
  double* after_;     // the same after it
  double* above_;     // backward: by what a layer gives
  double* gradient_;  // backward: by what it reads
};

}  // namespace phasor::plan
