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
  const BiasPlan& plan;
  const BiasSlice& slice;
  std::span<const std::int64_t> distances;
  std::span<double> out;
  std::span<double> scratch;

  double& at(std::int64_t head, std::size_t i) const { return out[static_cast<std::size_t>(head) * distances.size() + i]; }
  std::size_t spec_head(std::int64_t head) const { return static_cast<std::size_t>(slice.first_head + head); }

  /// value(head of the spec, distance)
  template <class Value>
  void each(Value value) const {
    for (std::int64_t head = 0; head < slice.heads; ++head) {
      for (std::size_t i = 0; i < distances.size(); ++i) at(head, i) = value(spec_head(head), distances[i]);
    }
  }

  void operator()(const Alibi& s) const {
    each([&](std::size_t head, std::int64_t r) { return 0 - plan.slopes[head] * alibi_length(s.form, r); });  // 0 - 0 is not -0
  }

  void operator()(const Kerple& s) const {
    const bool power = s.kind == KerpleKind::power;
    each([&](std::size_t head, std::int64_t r) {
      const double a = length_of(r);
      if (a == 0) return 0.0;
      if (!power) return -(math::log1p_of_product(s.r2[head], a) * math::DoubleDouble{s.r1[head], 0}).high;
      return -math::exp_of(math::log_double_double({a, 0}) * math::DoubleDouble{s.r2[head], 0}, s.r1[head]);
    });
  }

  void operator()(const Sandwich& s) const {
    for (std::size_t i = 0; i < distances.size(); ++i) {
      math::DoubleDouble sum = {0, 0};
      for (const math::Step& step : plan.steps) sum = sum + math::sincos_double_double(math::phase_of(step, distances[i])).cos;
      sum = sum * math::DoubleDouble{static_cast<double>(s.heads), 0};
      for (std::int64_t head = 0; head < slice.heads; ++head) {
        at(head, i) = math::detail::divide(sum, {8.0 * static_cast<double>(spec_head(head) + 1), 0}).high;
      }
    }
  }

  void operator()(const Fire& s) const {
    const double divisor = fire_scale(s, slice.query_position).divisor;
    MlpPass pass(s.mlp, scratch);
    for (std::size_t i = 0; i < distances.size(); ++i) {
      const double x = fire_psi(s, distances[i]) / divisor;
      pass.forward({&x, 1});
      for (std::int64_t head = 0; head < slice.heads; ++head) at(head, i) = pass.output(slice.first_head + head);
    }
  }

  template <class Output>
  void perceptron(const auto& s, Output output) const {
    MlpPass pass(s.mlp, scratch);
    for (std::size_t i = 0; i < distances.size(); ++i) {
      pass.forward(mlp_inputs(s, distances[i]).values);
      for (std::int64_t head = 0; head < slice.heads; ++head) at(head, i) = output(pass.output(slice.first_head + head));
    }
  }
  void operator()(const DynamicMlp& s) const {
    perceptron(s, [](double z) { return z; });
  }
  void operator()(const SwinV2& s) const {
    perceptron(s, [](double z) { return 16 * math::sigmoid(z); });
  }

  template <class Table>
  void operator()(const Table& s) const {
    if (s.table.empty()) {
      std::fill(out.begin(), out.end(), 0.0);
      return;
    }
    for (std::size_t i = 0; i < distances.size(); ++i) {
      const auto row = static_cast<std::size_t>(row_of(plan, distances[i]));
      for (std::int64_t head = 0; head < slice.heads; ++head) {
        at(head, i) = s.table[spec_head(head) * static_cast<std::size_t>(plan.rows) + row];
      }
    }
  }
};

double psi(const Fire& fire, double x) { return math::log1p_of_product(fire.c, x).high; }

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

FireScale fire_scale(const Fire& fire, std::int64_t query_position) {
  const double reach = std::max(fire.length, static_cast<double>(query_position));
  return {reach, psi(fire, reach) + fire.epsilon};
}

double fire_psi(const Fire& fire, std::int64_t distance) { return psi(fire, length_of(distance)); }

std::vector<double> fire_psi(const Fire& fire, std::span<const std::int64_t> distances) {
  std::vector<double> list;
  list.reserve(distances.size());
  for (const std::int64_t r : distances) list.push_back(fire_psi(fire, r));
  return list;
}

void fill_fire(const Fire& fire, const BiasSlice& slice, std::span<const double> psi, std::span<double> out) {
  const double divisor = fire_scale(fire, slice.query_position).divisor;
  std::vector<double> memory(MlpPass::memory_size(fire.mlp));
  MlpPass pass(fire.mlp, memory);
  for (std::size_t i = 0; i < psi.size(); ++i) {
    const double x = psi[i] / divisor;
    pass.forward({&x, 1});
    for (std::int64_t head = 0; head < slice.heads; ++head) {
      out[static_cast<std::size_t>(head) * psi.size() + i] = pass.output(slice.first_head + head);
    }
  }
}

MlpInputs mlp_inputs(const DynamicMlp& s, std::int64_t distance) {
  if (s.scale == DistanceScale::linear) return {{static_cast<double>(distance), 0}};
  const double g = math::log1p_of_product(1, length_of(distance)).high;
  return {{distance < 0 ? -g : g, 0}};
}

MlpInputs mlp_inputs(const SwinV2& s, std::int64_t distance) {
  const std::int64_t width = 2 * s.window.width - 1;
  const std::int64_t row = distance + spec::window_rows(s.window) / 2;
  const Window trained = spec::trained_window(s);
  return {{log_coordinate(row / width - (s.window.height - 1), trained.height),
           log_coordinate(row % width - (s.window.width - 1), trained.width)}};
}

void fill_values(const BiasPlan& plan, const BiasSlice& slice, std::span<const std::int64_t> distances, std::span<double> out,
                 std::span<double> scratch) noexcept {
  std::visit(FillValues{plan, slice, distances, out, scratch}, plan.spec);
}

void fill_values(const BiasPlan& plan, const BiasSlice& slice, std::span<const std::int64_t> distances, std::span<double> out) {
  std::vector<double> scratch(scratch_size(plan, slice.heads));
  fill_values(plan, slice, distances, out, scratch);
}

std::size_t scratch_size(const BiasPlan& plan, std::int64_t heads) {
  return std::visit(
      [&](const auto& s) -> std::size_t {
        if constexpr (requires { s.mlp; }) return MlpPass::memory_size(s.mlp) + static_cast<std::size_t>(heads);
        return 0;
      },
      plan.spec);
}

}  // namespace phasor::plan
