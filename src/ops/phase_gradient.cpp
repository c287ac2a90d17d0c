// SPDX-License-Identifier: Apache-2.0
// The public functions of the gradients of learned rotations: check, then run.
#include "job/phase_gradient.hpp"

#include "cpu/rotary/phase_gradient.hpp"
#include "ops/run.hpp"
#include "spec/without_exceptions.hpp"

namespace phasor {

Status phase_gradient(const TensorView& out, const ConstTensorView& rotated, const ConstTensorView& gradient, const TableLayout& layout,
                      const PhaseGradientOptions& options) {
  const Result<job::PhaseGradientJob> job = job::make_phase_gradient_job(out, rotated, gradient, layout, options.accumulate);
  if (!job.ok()) return job.status();
  if (job->grid.tasks > 0) ops::run_tasks(*job, cpu::phase_gradient, options.runner);
  return {};
}

Status Rotary::frequency_gradient(std::span<double> sum, const ConstTensorView& phase_gradient, const Positions& positions,
                                  const Runner& runner) const {
  Result<job::FrequencyGradientJob> job = job::make_frequency_gradient_job(sum, *plan_, phase_gradient, positions);
  if (!job.ok()) return job.status();
  if (job->grid.tasks == 0) return {};
  return spec::without_exceptions([&]() -> Status {
    std::vector<double> partial(static_cast<std::size_t>(job->grid.tasks) * sum.size());
    job->partial = partial.data();
    ops::run_tasks(*job, cpu::frequency_gradient, runner);
    for (std::size_t i = 0; i < partial.size(); ++i) sum[i % sum.size()] += partial[i];
    return {};
  });
}

Status Rotary::position_gradient(const PositionsView& out, const ConstTensorView& phase_gradient, const Runner& runner) const {
  const Result<job::PositionGradientJob> job = job::make_position_gradient_job(out, *plan_, phase_gradient);
  if (!job.ok()) return job.status();
  if (job->grid.tasks > 0) ops::run_tasks(*job, cpu::position_gradient, runner);
  return {};
}

}  // namespace phasor
