// SPDX-License-Identifier: Apache-2.0
// A small perceptron on float64, forward and backward, sums in the order of its inputs.
#pragma once

#include <span>
#include <vector>

#include "plan/bias/source.hpp"

namespace phasor::plan {

class MlpPass {
 public:
  explicit MlpPass(const MlpSource& mlp);

  /// Everything but the last layer.
  void forward(std::span<const double> inputs);
  /// The last layer's output for one head, after forward.
  double output(std::int64_t head) const;
  /// Adds the gradient of the parameters, from that of the outputs of the heads from first_head on. The inputs' is in input_gradient.
  void backward(std::span<const double> output_gradient, std::int64_t first_head, std::span<double> sum);
  double input_gradient(std::size_t input) const { return gradients_[0][input]; }

 private:
  /// Where W and b of a layer begin among the parameters.
  struct Place {
    std::size_t weights;
    std::size_t bias;
  };
  double activate(double x) const;
  double slope(double x) const;

  MlpSource mlp_;
  std::vector<Place> places_;
  std::vector<std::vector<double>> before_;     // the activation, of each layer but the first and the last
  std::vector<std::vector<double>> after_;      // what each layer reads
  std::vector<std::vector<double>> gradients_;  // of what each layer reads
};

}  // namespace phasor::plan
