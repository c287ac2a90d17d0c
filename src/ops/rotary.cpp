// SPDX-License-Identifier: Apache-2.0
// The public rotary functions: check, choose the kernels, run.
#include "phasor/rotary.hpp"

#include <type_traits>

#include "cpu/common/targets.hpp"
#include "job/rotary.hpp"
#include "ops/run.hpp"
#include "plan/rotary.hpp"
#include "spec/without_exceptions.hpp"

namespace phasor {
namespace {

template <class Job>
Status run(Result<Job> job, void (*cpu::RotaryKernels::*kernel)(const Job&, std::int64_t), const Runner& runner) {
  if (!job.ok()) return job.status();
  const Result<const cpu::RotaryKernels*> kernels = cpu::active_kernels();
  if (!kernels.ok()) return kernels.status();
  if (job->grid.tasks == 0 || job->pairs == 0) return {};
  if constexpr (std::is_same_v<Job, job::RotateJob>) job->stream = cpu::streams(*job);  // like the kernels, the backend's choice
  ops::run_tasks(*job, (*kernels)->*kernel, runner);
  return {};
}

}  // namespace

Result<Rotary> Rotary::make(const RotarySpec& spec) {
  Result<plan::RotaryPlan> plan = plan::make_rotary_plan(spec);
  if (!plan.ok()) return plan.status();
  return spec::without_exceptions([&]() -> Result<Rotary> { return Rotary(std::make_shared<const plan::RotaryPlan>(*std::move(plan))); });
}

Status Rotary::apply(const InOut& q, const InOut& k, const Positions& positions, const ApplyOptions& options) const {
  return run(job::make_rotate_job({"apply_rotary", &q, &k}, *plan_, positions, options.direction), &cpu::RotaryKernels::rotate,
             options.runner);
}

Status Rotary::apply(const InOut& q, const Positions& positions, const ApplyOptions& options) const {
  return run(job::make_rotate_job({"apply_rotary", &q, nullptr}, *plan_, positions, options.direction), &cpu::RotaryKernels::rotate,
             options.runner);
}

Status Rotary::cos_sin(const Positions& positions, const TensorView& cos, const TensorView& sin, const ApplyOptions& options) const {
  return run(job::make_rows_job(*plan_, positions, cos, sin, options.direction), &cpu::RotaryKernels::fill_rows, options.runner);
}

const RotarySpec& Rotary::spec() const { return plan_->spec; }
std::int64_t Rotary::rotary_width() const { return plan_->spec.rotary_width; }
const std::vector<double>& Rotary::frequencies() const { return plan_->frequencies; }
double Rotary::amplitude() const { return plan_->amplitude; }
double Rotary::softmax_scale() const { return plan_->softmax_scale; }

Status apply_rotary(const InOut& q, const InOut& k, const ConstTensorView& cos, const ConstTensorView& sin, const TableLayout& layout,
                    const ApplyOptions& options) {
  return run(job::make_rotate_job({"apply_rotary", &q, &k}, cos, sin, layout, options.direction), &cpu::RotaryKernels::rotate,
             options.runner);
}

Status apply_rotary(const InOut& q, const ConstTensorView& cos, const ConstTensorView& sin, const TableLayout& layout,
                    const ApplyOptions& options) {
  return run(job::make_rotate_job({"apply_rotary", &q, nullptr}, cos, sin, layout, options.direction), &cpu::RotaryKernels::rotate,
             options.runner);
}

}  // namespace phasor
