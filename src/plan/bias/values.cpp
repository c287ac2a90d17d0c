// SPDX-License-Identifier: Apache-2.0
// The bias of every scheme at given distances, head by head.
#include <algorithm>

#include "plan/bias/bias.hpp"
#include "plan/bias/mlp.hpp"
#include "plan/bias/table_row.hpp"

namespace phasor::plan {
namespace {

struct FillValues {
  const BiasSource& bias;
  const BiasSlice& slice;
  std::span<const std::int64_t> distances;
  std::span<double> out;
  std::span<double> scratch;

  double& at(std::int64_t head, std::size_t i) const { return out[static_cast<std::size_t>(head) * distances.size() + i]; }

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
      case BiasSource::Scheme::dynamic_mlp:
      case BiasSource::Scheme::swin_v2:
        return perceptron();
    }
  }

  /// value(head of the spec, distance)
  template <class Value>
  void each(Value value) const {
    for (std::int64_t head = 0; head < slice.heads; ++head) {
      for (std::size_t i = 0; i < distances.size(); ++i) at(head, i) = value(slice.first_head + head, distances[i]);
    }
  }

  void alibi() const {
    each([&](std::int64_t head, std::int64_t r) { return alibi_value(bias, head, r); });
  }
  void kerple() const {
    each([&](std::int64_t head, std::int64_t r) { return kerple_value(bias, head, r); });
  }

  void sandwich() const {
    for (std::size_t i = 0; i < distances.size(); ++i) {
      const math::DoubleDouble sum = sandwich_sum(bias, distances[i]);
      for (std::int64_t head = 0; head < slice.heads; ++head) at(head, i) = sandwich_value(sum, slice.first_head + head);
    }
  }

  void perceptron() const {
    const FireScale scale = fire_scale(bias.fire, slice.query_position);
    MlpPass pass(bias.mlp, scratch);
    for (std::size_t i = 0; i < distances.size(); ++i) {
      pass.forward(perceptron_inputs(bias, distances[i], scale).values);
      for (std::int64_t head = 0; head < slice.heads; ++head) at(head, i) = perceptron_value(bias, pass.output(slice.first_head + head));
    }
  }

  void table() const {
    if (bias.table == nullptr) {
      std::fill(out.begin(), out.end(), 0.0);
      return;
    }
    for (std::size_t i = 0; i < distances.size(); ++i) {
      const std::int64_t row = row_of(bias.row, distances[i]);
      for (std::int64_t head = 0; head < slice.heads; ++head) at(head, i) = bias.table[(slice.first_head + head) * bias.rows + row];
    }
  }
};

}  // namespace

std::vector<double> fire_psi(const Fire& fire, std::span<const std::int64_t> distances) { return fire_psi(curve_of(fire), distances); }

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
