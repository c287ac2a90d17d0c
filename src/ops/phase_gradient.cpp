// SPDX-License-Identifier: Apache-2.0
// The public functions of the gradients of learned rotations: check, choose, run.
#include "job/phase_gradient.hpp"

#include "ops/run.hpp"

namespace phasor {

using backend::Backend;

Status phase_gradient(const TensorView& out, const ConstTensorView& rotated, const ConstTensorView& gradient, const TableLayout& layout,
                      const PhaseGradientOptions& options) {
  return ops::run(job::make_phase_gradient_job(out, rotated, gradient, layout, options.accumulate), &Backend::phase_gradient,
                  options.execution);
}

Status Rotary::frequency_gradient(const TensorView& sum, const ConstTensorView& phase_gradient, const Positions& positions,
                                  const Execution& execution) const {
  return ops::run(job::make_frequency_gradient_job(sum, *plan_, phase_gradient, positions), &Backend::frequency_gradient, execution);
}

Status Rotary::position_gradient(const PositionsView& out, const ConstTensorView& phase_gradient, const Execution& execution) const {
  return ops::run(job::make_position_gradient_job(out, *plan_, phase_gradient), &Backend::position_gradient, execution);
}

}  // namespace phasor
