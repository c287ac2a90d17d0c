// SPDX-License-Identifier: Apache-2.0
// A small perceptron on float64, forward and backward, sums in the order of its inputs. It works in memory that the caller has: kernels
// must not allocate.
#pragma once

#include <cstddef>
#include <span>

#include "plan/bias/mlp_layer.hpp"

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
  MlpSource mlp_;
  MlpLayer last_;
  double* before_;    // the activation: what each layer reads, side by side
  double* after_;     // the same after it
  double* above_;     // backward: by what a layer gives
  double* gradient_;  // backward: by what it reads
};

}  // namespace phasor::plan
