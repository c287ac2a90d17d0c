// SPDX-License-Identifier: Apache-2.0
// The gradient of every scheme's parameters from that of its values: sums over distances in their order, so the same on every run.
#include "plan/bias/bias.hpp"
#include "plan/bias/gradient_terms.hpp"
#include "plan/bias/mlp.hpp"
#include "plan/bias/table_row.hpp"

namespace phasor::plan {
namespace {

struct AddGradient {
  const BiasSource& bias;
  const BiasSlice& slice;
  std::span<const std::int64_t> distances;
  std::span<const double> gradient;  // (heads, N)
  std::span<double> sum;
  std::span<double> scratch;  // by the outputs of a perceptron, then what it works in

  std::span<double> above() const { return scratch.first(static_cast<std::size_t>(slice.heads)); }
  MlpPass pass() const { return {bias.mlp, scratch.subspan(static_cast<std::size_t>(slice.heads))}; }
  double at(std::int64_t head, std::size_t i) const { return gradient[static_cast<std::size_t>(head) * distances.size() + i]; }
  std::size_t spec_head(std::int64_t head) const { return static_cast<std::size_t>(slice.first_head + head); }

  void add() const {
    switch (bias.scheme) {
      case BiasSource::Scheme::alibi:
        return alibi();
      case BiasSource::Scheme::table:
        return table();
      case BiasSource::Scheme::kerple:
        return kerple();
      case BiasSource::Scheme::sandwich:
        return;  // has no parameters
      case BiasSource::Scheme::fire:
      case BiasSource::Scheme::dynamic_mlp:
      case BiasSource::Scheme::swin_v2:
        return perceptron();
    }
  }

  /// add(head of the spec, distance, its gradient)
  template <class Add>
  void each(Add add) const {
    for (std::int64_t head = 0; head < slice.heads; ++head) {
      for (std::size_t i = 0; i < distances.size(); ++i) add(spec_head(head), distances[i], at(head, i));
    }
  }

  void alibi() const {
    each([&](std::size_t head, std::int64_t r, double g) { sum[head] += alibi_gradient(bias, r, g); });
  }

  void kerple() const {
    const auto heads = static_cast<std::size_t>(bias.heads);
    each([&](std::size_t head, std::int64_t r, double g) {
      if (r == 0) return;
      const KerpleGradient by = kerple_gradient(bias, static_cast<std::int64_t>(head), r, g);
      sum[head] += by.r1;
      sum[heads + head] += by.r2;
    });
  }

  void perceptron() const {
    MlpPass mlp = pass();
    const FireScale scale = fire_scale(bias.fire, slice.query_position);
    for (std::size_t i = 0; i < distances.size(); ++i) {
      const MlpInputs inputs = perceptron_inputs(bias, distances[i], scale);
      mlp.forward(inputs.values);
      for (std::int64_t head = 0; head < slice.heads; ++head) {
        above()[static_cast<std::size_t>(head)] = output_gradient(bias, at(head, i), mlp.output(slice.first_head + head));
      }
      mlp.backward(above(), slice.first_head, sum);
      if (bias.scheme == BiasSource::Scheme::fire) fire(distances[i], inputs.values[0], scale, mlp.input_gradient(0));
    }
  }

  void fire(std::int64_t distance, double x, const FireScale& scale, double input_gradient) const {
    const auto weights = static_cast<std::size_t>(bias.mlp.parameter_count);
    const FireGradient by = fire_gradient(bias.fire, scale, distance, x, input_gradient);
    sum[weights] += by.c;
    if (is_by_length(bias.fire, slice.query_position)) sum[weights + 1] += by.length;
  }

  void table() const {
    each([&](std::size_t head, std::int64_t r, double g) {
      sum[head * static_cast<std::size_t>(bias.rows) + static_cast<std::size_t>(row_of(bias.row, r))] += g;
    });
  }
};

}  // namespace

void add_gradient(const BiasSource& bias, const BiasSlice& slice, const BiasGradient& gradient, std::span<double> scratch) noexcept {
  AddGradient{bias, slice, gradient.distances, gradient.gradient, gradient.sum, scratch}.add();
}

void add_gradient(const BiasSource& bias, const BiasSlice& slice, const BiasGradient& gradient) {
  std::vector<double> scratch(scratch_size(bias, slice.heads));
  add_gradient(bias, slice, gradient, scratch);
}

void add_gradient(const BiasPlan& plan, const BiasSlice& slice, const BiasGradient& gradient) {
  add_gradient(source_of(plan), slice, gradient);
}

}  // namespace phasor::plan
