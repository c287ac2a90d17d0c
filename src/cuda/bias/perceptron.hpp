// SPDX-License-Identifier: Apache-2.0
// A perceptron at some distances together, by a block: each unit of a layer at each distance is a sum in one order, so that units and
// distances go side by side. The numbers are those of plan::MlpPass.
#pragma once

#include "plan/bias/at_distance.hpp"
#include "plan/bias/gradient_terms.hpp"
#include "plan/bias/mlp_layer.hpp"

namespace phasor::cuda {

using std::int64_t;

class Perceptrons {
 public:
  /// Memory: `distances` times what each layer reads (work.hpp); for a backward pass what it needs besides.
  PHASOR_HD Perceptrons(const plan::BiasSource& bias, double* memory, int64_t distances, int64_t heads = 0)
      : mlp_(&bias.mlp), last_(plan::last_layer(bias.mlp)), distances_(distances), heads_(heads) {
    read_ = last_.read + last_.in;
    after_ = memory;
    before_ = heads == 0 ? nullptr : after_ + distances * read_;
    above_ = heads == 0 ? nullptr : before_ + distances * read_;
  }
  PHASOR_HD int64_t distances() const { return distances_; }

  /// inputs(d): what the first layer reads at distance d.
  template <class Block, class Inputs>
  PHASOR_HD void forward(Block& block, const Inputs& inputs) const {
    block.each([&](int thread, int threads) {
      for (int64_t d = thread; d < distances_; d += threads) {
        const plan::MlpInputs in = inputs(d);
        for (int64_t i = 0; i < mlp_->widths[0]; ++i) after(d)[i] = in.values[i];
      }
    });
    plan::MlpLayer layer = plan::first_layer(*mlp_);
    for (int64_t l = 0; l + 1 < plan::layer_count(*mlp_); ++l) {
      block.each([&](int thread, int threads) {
        for (int64_t n = thread; n < distances_ * layer.out; n += threads) unit(layer, n / layer.out, n % layer.out);
      });
      layer = plan::next_layer(*mlp_, layer, l);
    }
  }
  PHASOR_HD double output(int64_t d, int64_t head) const { return plan::unit_sum(*mlp_, last_, head, after(d) + last_.read); }

  /// By what every layer gives and reads, from that of the outputs of `heads` heads: gradient(d, head from 0 on). After forward.
  template <class Block, class Gradient>
  PHASOR_HD void backward(Block& block, int64_t first_head, const Gradient& gradient) const {
    block.each([&](int thread, int threads) {
      for (int64_t n = thread; n < distances_ * heads_; n += threads)
        above(n / heads_)[read_ + n % heads_] = gradient(n / heads_, n % heads_);
    });
    plan::MlpLayer layer = last_;
    for (int64_t l = plan::layer_count(*mlp_); l-- > 0;) {
      block.each([&](int thread, int threads) {
        for (int64_t n = thread; n < distances_ * layer.in; n += threads) input(layer, n / layer.in, n % layer.in, first_head, l == 0);
      });
      if (l != 0) layer = plan::previous_layer(*mlp_, layer, l);
    }
  }

  /// What a distance adds to the gradient of a weight or of a bias (input -1) of a layer.
  PHASOR_HD double parameter_gradient(const plan::MlpLayer& layer, int64_t d, int64_t out, int64_t input, int64_t first_head) const {
    const double by = above(d)[is_last(layer) ? read_ + out - first_head : layer.read + layer.in + out];
    return input < 0 ? by : by * after(d)[layer.read + input];
  }
  /// Whether an output of a layer has a gradient: of the last one those of the heads of the call.
  PHASOR_HD bool has_gradient(const plan::MlpLayer& layer, int64_t out, int64_t first_head) const {
    return !is_last(layer) || (out >= first_head && out < first_head + heads_);
  }
  PHASOR_HD double input_value(int64_t d) const { return after(d)[0]; }
  PHASOR_HD double input_gradient(int64_t d) const { return above(d)[0]; }

 private:
  PHASOR_HD double* after(int64_t d) const { return after_ + d * read_; }
  PHASOR_HD double* before(int64_t d) const { return before_ + d * read_; }
  PHASOR_HD double* above(int64_t d) const { return above_ + d * (read_ + heads_); }
  PHASOR_HD bool is_last(const plan::MlpLayer& layer) const { return layer.weights == last_.weights; }

  PHASOR_HD void unit(const plan::MlpLayer& layer, int64_t d, int64_t o) const {
    const int64_t to = layer.read + layer.in + o;
    const double sum = plan::unit_sum(*mlp_, layer, o, after(d) + layer.read);
    if (before_ != nullptr) before(d)[to] = sum;
    after(d)[to] = plan::activate(mlp_->activation, sum);
  }

  /// By input i of a layer, then through the activation before it; the first layer has none.
  PHASOR_HD void input(const plan::MlpLayer& layer, int64_t d, int64_t i, int64_t first_head, bool is_first) const {
    const bool last = is_last(layer);
    const double* const by = above(d) + (last ? read_ : layer.read + layer.in);
    const int64_t first = last ? first_head : 0;
    const int64_t count = last ? heads_ : layer.out;
    double sum = 0;
    for (int64_t o = 0; o < count; ++o) sum += by[o] * mlp_->parameters[layer.weights + (first + o) * layer.in + i];
    const int64_t at = layer.read + i;
    above(d)[at] = is_first ? sum : sum * plan::activation_slope(mlp_->activation, before(d)[at]);
  }

  const plan::MlpSource* mlp_;
  plan::MlpLayer last_;
  int64_t distances_;
  int64_t heads_;
  int64_t read_;    // numbers that all layers read
  double* after_;   // (distances, read)
  double* before_;  // the activation, the same
  double* above_;   // (distances, read + heads): by what is read, then by the outputs
};

}  // namespace phasor::cuda
