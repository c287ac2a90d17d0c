// SPDX-License-Identifier: Apache-2.0
// The public rotary functions: check, choose the kernels, run.
#include "phasor/rotary.hpp"

#include "job/rotary.hpp"
#include "ops/run.hpp"
#include "plan/rotary.hpp"
#include "spec/without_exceptions.hpp"

namespace phasor {

using backend::Backend;

Result<Rotary> Rotary::make(const RotarySpec& spec) {
  Result<plan::RotaryPlan> plan = plan::make_rotary_plan(spec);
  if (!plan.ok()) return plan.status();
  return spec::without_exceptions([&]() -> Result<Rotary> { return Rotary(std::make_shared<const plan::RotaryPlan>(*std::move(plan))); });
}

Status Rotary::apply(const InOut& q, const InOut& k, const Positions& positions, const ApplyOptions& options) const {
  return ops::run(job::make_rotate_job({"apply_rotary", &q, &k}, *plan_, positions, options.direction), &Backend::rotate,
                  options.execution);
}

Status Rotary::apply(const InOut& q, const Positions& positions, const ApplyOptions& options) const {
  return ops::run(job::make_rotate_job({"apply_rotary", &q, nullptr}, *plan_, positions, options.direction), &Backend::rotate,
                  options.execution);
}

Status Rotary::cos_sin(const Positions& positions, const TensorView& cos, const TensorView& sin, const ApplyOptions& options) const {
  return ops::run(job::make_rows_job(*plan_, positions, cos, sin, options.direction), &Backend::rows, options.execution);
}

const RotarySpec& Rotary::spec() const { return plan_->spec; }
std::int64_t Rotary::rotary_width() const { return plan_->spec.rotary_width; }
const std::vector<double>& Rotary::frequencies() const { return plan_->frequencies; }
double Rotary::amplitude() const { return plan_->amplitude; }
double Rotary::softmax_scale() const { return plan_->softmax_scale; }

Status apply_rotary(const InOut& q, const InOut& k, const ConstTensorView& cos, const ConstTensorView& sin, const TableLayout& layout,
                    const ApplyOptions& options) {
  return ops::run(job::make_rotate_job({"apply_rotary", &q, &k}, cos, sin, layout, options.direction), &Backend::rotate, options.execution);
}

Status apply_rotary(const InOut& q, const ConstTensorView& cos, const ConstTensorView& sin, const TableLayout& layout,
                    const ApplyOptions& options) {
  return ops::run(job::make_rotate_job({"apply_rotary", &q, nullptr}, cos, sin, layout, options.direction), &Backend::rotate,
                  options.execution);
}

}  // namespace phasor
