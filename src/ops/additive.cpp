// SPDX-License-Identifier: Apache-2.0
// The public functions of sinusoidal encoding: check, choose the kernels, run.
#include "phasor/additive.hpp"

#include <cmath>

#include "job/additive.hpp"
#include "job/check.hpp"
#include "job/element.hpp"
#include "ops/run.hpp"
#include "spec/format.hpp"
#include "spec/without_exceptions.hpp"

namespace phasor {

Result<Sinusoidal> Sinusoidal::make(const SinusoidalSpec& spec) {
  Result<plan::SinusoidalPlan> plan = plan::make_sinusoidal_plan(spec);
  if (!plan.ok()) return plan.status();
  return spec::without_exceptions(
      [&]() -> Result<Sinusoidal> { return Sinusoidal(std::make_shared<const plan::SinusoidalPlan>(*std::move(plan))); });
}

Status Sinusoidal::fill(const TensorView& out, const Positions& positions, const AddOptions& options) const {
  return ops::run(job::make_fill_job(*plan_, out, positions, options.amplitude.value_or(plan_->spec.amplitude)), &backend::Backend::add,
                  options.execution);
}

Status Sinusoidal::add(const InOut& x, const Positions& positions, const AddOptions& options) const {
  return ops::run(job::make_add_job(*plan_, x, positions, options.amplitude.value_or(plan_->spec.amplitude)), &backend::Backend::add,
                  options.execution);
}

Result<ShiftOperator> Sinusoidal::shift(std::span<const double> distances) const {
  return spec::without_exceptions([&]() -> Result<ShiftOperator> {
    std::vector<double> by_axis(distances.begin(), distances.end());
    if (by_axis.size() == 1) by_axis.assign(plan_->parts.size(), distances[0]);
    if (by_axis.size() != plan_->parts.size()) {
      return Status::invalid(spec::format("shift: distances has {} elements, wanted 1 or {}", by_axis.size(), plan_->parts.size()));
    }
    for (const double distance : by_axis) {
      if (!(std::fabs(distance) < 0x1p63)) return Status::invalid(spec::format("shift: distance is {}, wanted below 2^63", distance));
    }
    for (const spec::AxisPart& part : plan_->parts) {
      if (part.unpaired) return Status::invalid("shift: the last channel is unpaired, wanted pairs: half a pair does not turn");
    }
    return plan::make_shift(*plan_, by_axis);
  });
}

const SinusoidalSpec& Sinusoidal::spec() const { return plan_->spec; }
std::int64_t Sinusoidal::axes() const { return static_cast<std::int64_t>(plan_->parts.size()); }
const std::vector<double>& Sinusoidal::frequencies() const { return plan_->frequencies; }

namespace {

/// An operator may be made by hand: its channels must be there.
Status check_shift(const char* where, const ShiftOperator& shift) {
  constexpr std::int64_t widest = std::int64_t{1} << 20;
  if (shift.width < 0 || shift.width > widest) {
    return Status::invalid(spec::format("{}: the width is {}, wanted 0 to {}", where, shift.width, widest));
  }
  for (const ShiftOperator::Pair& pair : shift.pairs) {
    for (const std::int64_t channel : {pair.sin_channel, pair.cos_channel}) {
      if (channel >= 0 && channel < shift.width) continue;
      return Status::invalid(spec::format("{}: a pair has channel {}, wanted 0 to {}", where, channel, shift.width - 1));
    }
  }
  return {};
}

}  // namespace

Status apply_shift(const ShiftOperator& shift, std::span<const double> from, std::span<double> to) {
  if (Status s = check_shift("apply_shift", shift); !s) return s;
  const auto width = static_cast<std::size_t>(shift.width);
  if (from.size() != width || to.size() != width) {
    return Status::invalid(spec::format("apply_shift: {} channels become {}, wanted {}", from.size(), to.size(), width));
  }
  if (from.data() != to.data()) std::copy(from.begin(), from.end(), to.begin());
  for (const ShiftOperator::Pair& pair : shift.pairs) {
    double& s = to[static_cast<std::size_t>(pair.sin_channel)];
    double& c = to[static_cast<std::size_t>(pair.cos_channel)];
    const double turned = s * pair.cos + c * pair.sin;
    c = c * pair.cos - s * pair.sin;
    s = turned;
  }
  return {};
}

Result<std::vector<double>> matrix_of(const ShiftOperator& shift) {
  return spec::without_exceptions([&]() -> Result<std::vector<double>> {
    if (Status s = check_shift("matrix_of", shift); !s) return s;
    const auto width = static_cast<std::size_t>(shift.width);
    std::vector<double> matrix(width * width, 0);
    for (std::size_t i = 0; i < width; ++i) matrix[i * width + i] = 1;
    for (const ShiftOperator::Pair& pair : shift.pairs) {
      const auto s = static_cast<std::size_t>(pair.sin_channel);
      const auto c = static_cast<std::size_t>(pair.cos_channel);
      matrix[s * width + s] = matrix[c * width + c] = pair.cos;
      matrix[s * width + c] = pair.sin;
      matrix[c * width + s] = -pair.sin;
    }
    return matrix;
  });
}

Result<double> Sinusoidal::amplitude_gradient(const ConstTensorView& gradient, const Positions& positions) const {
  if (Status s = job::check_gradient(*plan_, gradient, positions); !s) return s;
  if (Status s = job::check_on_cpu("amplitude_gradient", "gradient", gradient.device); !s) return s;
  return spec::without_exceptions([&]() -> Result<double> {
    const auto [batch, tokens, heads, width] = gradient.shape;
    std::vector<double> rows(static_cast<std::size_t>(tokens * width));
    double sum = 0;
    for (std::int64_t b = 0; b < batch; ++b) {
      if (Status s = fill(view(rows.data(), {1, tokens, 1, width}), job::batch_row(positions, b), {.amplitude = 1.0}); !s) return s;
      for (std::int64_t i = 0; i < tokens * width; ++i) {
        sum += job::value_at(gradient, b, i / width, i % width) * rows[static_cast<std::size_t>(i)];
      }
    }
    return sum;
  });
}

}  // namespace phasor
