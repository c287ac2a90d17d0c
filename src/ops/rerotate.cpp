// SPDX-License-Identifier: Apache-2.0
// The public functions of rerotation: check, choose, run.
#include "job/rerotate.hpp"

#include "ops/run.hpp"
#include "phasor/rotary.hpp"

namespace phasor {

Status rerotate(const InOut& keys, const RotatedAt& from, const RotatedAt& to, const ApplyOptions& options) {
  return ops::run(job::make_rerotate_job({keys}, {from.rotary.plan(), from.positions}, {to.rotary.plan(), to.positions}, options.direction),
                  &backend::Backend::rerotate, options.execution);
}

Status rerotate(const TensorView& cache, const Slots& slots, const RotatedAt& from, const RotatedAt& to, const ApplyOptions& options) {
  return ops::run(
      job::make_rerotate_job({cache, &slots}, {from.rotary.plan(), from.positions}, {to.rotary.plan(), to.positions}, options.direction),
      &backend::Backend::rerotate, options.execution);
}

}  // namespace phasor
