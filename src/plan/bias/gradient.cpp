// SPDX-License-Identifier: Apache-2.0
// The gradient of every scheme's parameters from that of its values: sums over distances in their order, so the same on every run.
#include "math/elementary.hpp"
#include "plan/bias/bias.hpp"
#include "plan/bias/buckets.hpp"
#include "plan/bias/mlp.hpp"

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
        return fire();
      case BiasSource::Scheme::dynamic_mlp:
        return perceptron([](double g, double /*z*/) { return g; });
      case BiasSource::Scheme::swin_v2:
        return perceptron([](double g, double z) { return g * 16 * math::sigmoid(z) * math::sigmoid(-z); });
    }
  }

  /// add(head of the spec, distance, its gradient)
  template <class Add>
  void each(Add add) const {
    for (std::int64_t head = 0; head < slice.heads; ++head) {
      for (std::size_t i = 0; i < distances.size(); ++i) add(spec_head(head), distances[i], at(head, i));
    }
  }

  // Slopes rounded to bfloat16 get the gradient of slopes that are not.
  void alibi() const {
    each([&](std::size_t head, std::int64_t r, double g) { sum[head] -= alibi_length(bias.form, r) * g; });
  }

  void kerple() const {
    const auto heads = static_cast<std::size_t>(bias.heads);
    each([&](std::size_t head, std::int64_t r, double g) {
      const double a = length_of(r);
      if (a == 0) return;  // the bias is 0 there, whatever the parameters
      const double r1 = bias.r1[head];
      const double r2 = bias.r2[head];
      if (bias.kerple == KerpleKind::logarithmic) {
        sum[head] -= g * math::log1p_of_product(r2, a).high;
        sum[heads + head] -= g * r1 * (a / (1 + r2 * a));
        return;
      }
      const math::DoubleDouble log = math::log_double_double({a, 0});
      const double power = math::exp_of(log * math::DoubleDouble{r2, 0});
      sum[head] -= g * power;
      sum[heads + head] -= g * r1 * power * log.high;
    });
  }

  template <class OutputGradient>
  void perceptron(OutputGradient output_gradient) const {
    MlpPass mlp = pass();
    for (std::size_t i = 0; i < distances.size(); ++i) {
      mlp.forward(mlp_inputs(bias, distances[i]).values);
      for (std::int64_t head = 0; head < slice.heads; ++head) {
        above()[static_cast<std::size_t>(head)] = output_gradient(at(head, i), mlp.output(slice.first_head + head));
      }
      mlp.backward(above(), slice.first_head, sum);
    }
  }

  // x = psi(a) / (psi(M) + epsilon), M = max(length, query): dx/dc = (a / (c a + 1) - x M / (c M + 1)) / (psi(M) + epsilon), and where
  // M is the length, dx/dlength = -x c / (c M + 1) / (psi(M) + epsilon).
  void fire() const {
    const FireCurve& s = bias.fire;
    MlpPass mlp = pass();
    const FireScale scale = fire_scale(s, slice.query_position);
    const bool by_length = static_cast<double>(slice.query_position) <= s.length;
    const auto weights = static_cast<std::size_t>(bias.mlp.parameter_count);
    for (std::size_t i = 0; i < distances.size(); ++i) {
      const double x = fire_psi(s, distances[i]) / scale.divisor;
      mlp.forward({&x, 1});
      for (std::int64_t head = 0; head < slice.heads; ++head) above()[static_cast<std::size_t>(head)] = at(head, i);
      mlp.backward(above(), slice.first_head, sum);
      const double g = mlp.input_gradient(0) / scale.divisor;
      const double a = length_of(distances[i]);
      const double slowed = s.c * scale.reach + 1;
      sum[weights] += g * (a / (s.c * a + 1) - x * scale.reach / slowed);
      if (by_length) sum[weights + 1] -= g * x * s.c / slowed;
    }
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
