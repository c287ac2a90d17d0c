// SPDX-License-Identifier: Apache-2.0
// The public functions of rerotation: check, choose the kernels, run.
#include "job/rerotate.hpp"

#include "cpu/common/targets.hpp"
#include "ops/run.hpp"
#include "phasor/rotary.hpp"

namespace phasor {
namespace {

Status run(Result<job::RerotateJob> job, const Runner& runner) {
  if (!job.ok()) return job.status();
  const Result<const cpu::RotaryKernels*> kernels = cpu::active_kernels();
  if (!kernels.ok()) return kernels.status();
  job::RotateJob& rotate = job->rotate;
  if (rotate.grid.tasks == 0 || rotate.pairs == 0) return {};
  rotate.stream = cpu::streams(rotate);
  ops::run_tasks(job->link(), (*kernels)->rotate, runner);
  return {};
}

}  // namespace

Status rerotate(const InOut& keys, const RotatedAt& from, const RotatedAt& to, const ApplyOptions& options) {
  return run(job::make_rerotate_job({keys}, {*from.rotary.plan_, from.positions}, {*to.rotary.plan_, to.positions}, options.direction),
             options.runner);
}

Status rerotate(const TensorView& cache, std::span<const std::int64_t> slots, const RotatedAt& from, const RotatedAt& to,
                const ApplyOptions& options) {
  return run(
      job::make_rerotate_job({cache, &slots}, {*from.rotary.plan_, from.positions}, {*to.rotary.plan_, to.positions}, options.direction),
      options.runner);
}

}  // namespace phasor
