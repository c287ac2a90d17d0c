// SPDX-License-Identifier: Apache-2.0
// The gradient of every scheme's parameters from that of its values: sums over distances in their order, so the same on every run.
#include "math/elementary.hpp"
#include "plan/bias/bias.hpp"
#include "plan/bias/buckets.hpp"
#include "plan/bias/mlp.hpp"

namespace phasor::plan {
namespace {

struct AddGradient {
  const BiasPlan& plan;
  const BiasSlice& slice;
  std::span<const std::int64_t> distances;
  std::span<const double> gradient;  // (heads, N)
  std::span<double> sum;
  std::span<double> scratch;  // by the outputs of a perceptron, then what it works in

  std::span<double> above() const { return scratch.first(static_cast<std::size_t>(slice.heads)); }
  MlpPass pass_of(const Mlp& mlp) const { return {mlp, scratch.subspan(static_cast<std::size_t>(slice.heads))}; }
  double at(std::int64_t head, std::size_t i) const { return gradient[static_cast<std::size_t>(head) * distances.size() + i]; }
  std::size_t spec_head(std::int64_t head) const { return static_cast<std::size_t>(slice.first_head + head); }

  /// add(head of the spec, distance, its gradient)
  template <class Add>
  void each(Add add) const {
    for (std::int64_t head = 0; head < slice.heads; ++head) {
      for (std::size_t i = 0; i < distances.size(); ++i) add(spec_head(head), distances[i], at(head, i));
    }
  }

  // Slopes rounded to bfloat16 get the gradient of slopes that are not.
  void operator()(const Alibi& s) const {
    each([&](std::size_t head, std::int64_t r, double g) { sum[head] -= alibi_length(s.form, r) * g; });
  }

  void operator()(const Kerple& s) const {
    const std::size_t heads = s.r1.size();
    each([&](std::size_t head, std::int64_t r, double g) {
      const double a = length_of(r);
      if (a == 0) return;  // the bias is 0 there, whatever the parameters
      const double r1 = s.r1[head];
      const double r2 = s.r2[head];
      if (s.kind == KerpleKind::logarithmic) {
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

  void operator()(const Sandwich& /*s*/) const {}

  template <class OutputGradient>
  void perceptron(const auto& s, OutputGradient output_gradient) const {
    MlpPass pass = pass_of(s.mlp);
    for (std::size_t i = 0; i < distances.size(); ++i) {
      pass.forward(mlp_inputs(s, distances[i]).values);
      for (std::int64_t head = 0; head < slice.heads; ++head) {
        above()[static_cast<std::size_t>(head)] = output_gradient(at(head, i), pass.output(slice.first_head + head));
      }
      pass.backward(above(), slice.first_head, sum);
    }
  }
  void operator()(const DynamicMlp& s) const {
    perceptron(s, [](double g, double /*z*/) { return g; });
  }
  void operator()(const SwinV2& s) const {
    perceptron(s, [](double g, double z) { return g * 16 * math::sigmoid(z) * math::sigmoid(-z); });
  }

  // x = psi(a) / (psi(M) + epsilon), M = max(length, query): dx/dc = (a / (c a + 1) - x M / (c M + 1)) / (psi(M) + epsilon), and where
  // M is the length, dx/dlength = -x c / (c M + 1) / (psi(M) + epsilon).
  void operator()(const Fire& s) const {
    MlpPass pass = pass_of(s.mlp);
    const FireScale scale = fire_scale(s, slice.query_position);
    const bool by_length = static_cast<double>(slice.query_position) <= s.length;
    const std::size_t weights = s.mlp.parameters.size();
    for (std::size_t i = 0; i < distances.size(); ++i) {
      const double x = fire_psi(s, distances[i]) / scale.divisor;
      pass.forward({&x, 1});
      for (std::int64_t head = 0; head < slice.heads; ++head) above()[static_cast<std::size_t>(head)] = at(head, i);
      pass.backward(above(), slice.first_head, sum);
      const double g = pass.input_gradient(0) / scale.divisor;
      const double a = length_of(distances[i]);
      const double slowed = s.c * scale.reach + 1;
      sum[weights] += g * (a / (s.c * a + 1) - x * scale.reach / slowed);
      if (by_length) sum[weights + 1] -= g * x * s.c / slowed;
    }
  }

  template <class Table>
  void operator()(const Table& /*s*/) const {
    each([&](std::size_t head, std::int64_t r, double g) {
      sum[head * static_cast<std::size_t>(plan.rows) + static_cast<std::size_t>(row_of(plan, r))] += g;
    });
  }
};

}  // namespace

void add_gradient(const BiasPlan& plan, const BiasSlice& slice, const BiasGradient& gradient, std::span<double> scratch) noexcept {
  std::visit(AddGradient{plan, slice, gradient.distances, gradient.gradient, gradient.sum, scratch}, plan.spec);
}

void add_gradient(const BiasPlan& plan, const BiasSlice& slice, const BiasGradient& gradient) {
  std::vector<double> scratch(scratch_size(plan, slice.heads));
  add_gradient(plan, slice, gradient, scratch);
}

}  // namespace phasor::plan
