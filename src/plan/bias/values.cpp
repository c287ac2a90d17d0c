// SPDX-License-Identifier: Apache-2.0
// The bias of every scheme at given distances, head by head.
#include <algorithm>

#include "math/elementary.hpp"
#include "plan/bias/bias.hpp"
#include "plan/bias/buckets.hpp"
#include "plan/bias/mlp.hpp"
#include "spec/bias.hpp"

namespace phasor::plan {
namespace {

struct FillValues {
  const BiasSource& bias;
  const BiasSlice& slice;
  std::span<const std::int64_t> distances;
  std::span<double> out;
  std::span<double> scratch;

  double& at(std::int64_t head, std::size_t i) const { return out[static_cast<std::size_t>(head) * distances.size() + i]; }
  std::size_t spec_head(std::int64_t head) const { return static_cast<std::size_t>(slice.first_head + head); }

  void fill() const {
    switch (bias.scheme) {
      case BiasSource::Scheme::alibi:
        return alibi();
      case BiasSource::Scheme::table:
        return table();
      case BiasSource::Scheme::kerple:
        return kerple();
      case BiasSource::Scheme::sandwich:
        return sandwich();
      case BiasSource::Scheme::fire:
        return fire();
      case BiasSource::Scheme::dynamic_mlp:
        return perceptron([](double z) { return z; });
      case BiasSource::Scheme::swin_v2:
        return perceptron([](double z) { return 16 * math::sigmoid(z); });
    }
  }

  /// value(head of the spec, distance)
  template <class Value>
  void each(Value value) const {
    for (std::int64_t head = 0; head < slice.heads; ++head) {
      for (std::size_t i = 0; i < distances.size(); ++i) at(head, i) = value(spec_head(head), distances[i]);
    }
  }

  void alibi() const {
    each([&](std::size_t head, std::int64_t r) { return 0 - bias.slopes[head] * alibi_length(bias.form, r); });  // 0 - 0 is not -0
  }

  void kerple() const {
    const bool power = bias.kerple == KerpleKind::power;
    each([&](std::size_t head, std::int64_t r) {
      const double a = length_of(r);
      if (a == 0) return 0.0;
      if (!power) return -(math::log1p_of_product(bias.r2[head], a) * math::DoubleDouble{bias.r1[head], 0}).high;
      return -math::exp_of(math::log_double_double({a, 0}) * math::DoubleDouble{bias.r2[head], 0}, bias.r1[head]);
    });
  }

  void sandwich() const {
    for (std::size_t i = 0; i < distances.size(); ++i) {
      math::DoubleDouble sum = {0, 0};
      for (std::int64_t pair = 0; pair < bias.step_count; ++pair) {
        sum = sum + math::sincos_double_double(math::phase_of(bias.steps[pair], distances[i])).cos;
      }
      sum = sum * math::DoubleDouble{static_cast<double>(bias.heads), 0};
      for (std::int64_t head = 0; head < slice.heads; ++head) {
        at(head, i) = math::detail::divide(sum, {8.0 * static_cast<double>(spec_head(head) + 1), 0}).high;
      }
    }
  }

  void fire() const {
    const double divisor = fire_scale(bias.fire, slice.query_position).divisor;
    MlpPass pass(bias.mlp, scratch);
    for (std::size_t i = 0; i < distances.size(); ++i) {
      const double x = fire_psi(bias.fire, distances[i]) / divisor;
      pass.forward({&x, 1});
      for (std::int64_t head = 0; head < slice.heads; ++head) at(head, i) = pass.output(slice.first_head + head);
    }
  }

  template <class Output>
  void perceptron(Output output) const {
    MlpPass pass(bias.mlp, scratch);
    for (std::size_t i = 0; i < distances.size(); ++i) {
      pass.forward(mlp_inputs(bias, distances[i]).values);
      for (std::int64_t head = 0; head < slice.heads; ++head) at(head, i) = output(pass.output(slice.first_head + head));
    }
  }

  void table() const {
    if (bias.table == nullptr) {
      std::fill(out.begin(), out.end(), 0.0);
      return;
    }
    for (std::size_t i = 0; i < distances.size(); ++i) {
      const auto row = static_cast<std::size_t>(row_of(bias.row, distances[i]));
      for (std::int64_t head = 0; head < slice.heads; ++head) {
        at(head, i) = bias.table[spec_head(head) * static_cast<std::size_t>(bias.rows) + row];
      }
    }
  }
};

double psi(const FireCurve& fire, double x) { return math::log1p_of_product(fire.c, x).high; }

/// sign(x) log2(1 + 8 |x| / (w - 1)) / 3. Of whole numbers only, so that nothing is lost: ln((w - 1 + 8 |x|) / (w - 1)) / ln(8).
double log_coordinate(std::int64_t offset, std::int64_t window) {
  if (offset == 0) return 0;
  const double steps = static_cast<double>(window - 1);
  const auto top = math::log_double_double({steps + 8 * length_of(offset), 0});
  const auto bottom = math::log_double_double({steps, 0});
  const double g = math::detail::divide(top + -bottom, math::detail::kLn2 * math::DoubleDouble{3, 0}).high;
  return offset < 0 ? -g : g;
}

}  // namespace

double alibi_length(AlibiForm form, std::int64_t distance) {
  switch (form) {
    case AlibiForm::symmetric:
      return length_of(distance);
    case AlibiForm::causal:
      return distance > 0 ? static_cast<double>(distance) : 0;
    case AlibiForm::key_position:
      break;
  }
  return static_cast<double>(distance);
}

FireScale fire_scale(const FireCurve& fire, std::int64_t query_position) {
  const double reach = std::max(fire.length, static_cast<double>(query_position));
  return {reach, psi(fire, reach) + fire.epsilon};
}

FireScale fire_scale(const Fire& fire, std::int64_t query_position) { return fire_scale(curve_of(fire), query_position); }

std::vector<double> fire_psi(const Fire& fire, std::span<const std::int64_t> distances) { return fire_psi(curve_of(fire), distances); }

double fire_psi(const FireCurve& fire, std::int64_t distance) { return psi(fire, length_of(distance)); }

std::vector<double> fire_psi(const FireCurve& fire, std::span<const std::int64_t> distances) {
  std::vector<double> list;
  list.reserve(distances.size());
  for (const std::int64_t r : distances) list.push_back(fire_psi(fire, r));
  return list;
}

void fill_fire(const BiasSource& bias, const BiasSlice& slice, std::span<const double> psi, std::span<double> out) {
  const double divisor = fire_scale(bias.fire, slice.query_position).divisor;
  std::vector<double> memory(MlpPass::memory_size(bias.mlp));
  MlpPass pass(bias.mlp, memory);
  for (std::size_t i = 0; i < psi.size(); ++i) {
    const double x = psi[i] / divisor;
    pass.forward({&x, 1});
    for (std::int64_t head = 0; head < slice.heads; ++head) {
      out[static_cast<std::size_t>(head) * psi.size() + i] = pass.output(slice.first_head + head);
    }
  }
}

namespace {

MlpInputs dynamic_inputs(DistanceScale scale, std::int64_t distance) {
  if (scale == DistanceScale::linear) return {{static_cast<double>(distance), 0}};
  const double g = math::log1p_of_product(1, length_of(distance)).high;
  return {{distance < 0 ? -g : g, 0}};
}

MlpInputs window_inputs(const Window& window, const Window& trained, std::int64_t distance) {
  const std::int64_t width = 2 * window.width - 1;
  const std::int64_t row = distance + spec::window_rows(window) / 2;
  return {
      {log_coordinate(row / width - (window.height - 1), trained.height), log_coordinate(row % width - (window.width - 1), trained.width)}};
}

}  // namespace

MlpInputs mlp_inputs(const BiasSource& bias, std::int64_t distance) {
  if (bias.scheme == BiasSource::Scheme::swin_v2) return window_inputs(bias.window, bias.trained, distance);
  return dynamic_inputs(bias.scale, distance);
}

std::size_t scratch_size(const BiasSource& bias, std::int64_t heads) {
  return bias.mlp.width_count == 0 ? 0 : MlpPass::memory_size(bias.mlp) + static_cast<std::size_t>(heads);
}

void fill_values(const BiasSource& bias, const BiasSlice& slice, std::span<const std::int64_t> distances, std::span<double> out,
                 std::span<double> scratch) noexcept {
  FillValues{bias, slice, distances, out, scratch}.fill();
}

void fill_values(const BiasSource& bias, const BiasSlice& slice, std::span<const std::int64_t> distances, std::span<double> out) {
  std::vector<double> scratch(scratch_size(bias, slice.heads));
  fill_values(bias, slice, distances, out, scratch);
}

void fill_values(const BiasPlan& plan, const BiasSlice& slice, std::span<const std::int64_t> distances, std::span<double> out) {
  fill_values(source_of(plan), slice, distances, out);
}

}  // namespace phasor::plan
