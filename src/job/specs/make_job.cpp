// SPDX-License-Identifier: Apache-2.0
// A call of apply_rotaries, checked and made plain data.
#include "job/specs/check.hpp"
#include "job/specs/job.hpp"

namespace phasor::job {
namespace {

/// The list is read while outputs are written.
Status check_list_apart(const RotateOperands& operands, const IntegerList& list) {
  if (list.data == nullptr || list.size == 0) return {};
  for (const auto& [name, x] : {std::pair<const char*, const InOut*>{"q", operands.q}, {"k", operands.k}}) {
    if (x != nullptr && share_bytes(strided(x->out), bytes_of_list(list)))
      return error(operands.where, "spec_of overlaps {}'s output, wanted memory apart", name);
  }
  return {};
}

}  // namespace

Result<RotateSpecsJob> make_rotate_specs_job(const RotateSpecsCall& call, std::span<RowSource> rows) {
  const RotateOperands& operands = call.operands;
  const std::span<const Rotary> rotaries = call.list.rotaries;
  if (rotaries.empty()) return error(operands.where, "rotaries has 0 entries, wanted 1 at least");
  const Result<RotateJob> rotate = make_rotate_job(operands, rotaries[0].plan(), call.positions, call.direction);
  if (!rotate.ok()) return rotate.status();
  Result<RotateSpecsJob> job(std::in_place);
  job->device = rotate->device;
  job->rotate = *rotate;
  const Extents& shape = operands.q->in.shape;
  const SpecsCall specs = {operands.where,       rotaries,      call.list.spec_of, call.positions, {shape[0], shape[1], 1, rotate->device},
                           operands.q->in.dtype, call.direction};
  if (Status s = fill_specs(specs, rows, job->specs); !s) return s;
  if (Status s = check_list_apart(operands, call.list.spec_of); !s) return s;
  if (rotate->device.kind == DeviceKind::cpu) {
    if (Status s = check_spec_of(operands.where, job->specs); !s) return s;
  }
  return job;
}

}  // namespace phasor::job
