// SPDX-License-Identifier: Apache-2.0
// Rotation by several specs: check, choose, run.
#include "phasor/rotaries.hpp"

#include <vector>

#include "job/specs/job.hpp"
#include "ops/run.hpp"
#include "spec/without_exceptions.hpp"

namespace phasor {
namespace {

Status rotate_specs(const RotaryList& list, const job::RotateOperands& operands, const Positions& positions, const ApplyOptions& options) {
  return spec::without_exceptions([&] {
    std::vector<job::RowSource> rows(list.rotaries.size());
    return ops::run(job::make_rotate_specs_job({list, operands, positions, options.direction}, rows), &backend::Backend::rotate_specs,
                    options.execution);
  });
}

}  // namespace

Status apply_rotaries(const RotaryList& list, const InOut& q, const InOut& k, const Positions& positions, const ApplyOptions& options) {
  return rotate_specs(list, {"apply_rotaries", &q, &k}, positions, options);
}

Status apply_rotaries(const RotaryList& list, const InOut& q, const Positions& positions, const ApplyOptions& options) {
  return rotate_specs(list, {"apply_rotaries", &q, nullptr}, positions, options);
}

}  // namespace phasor
