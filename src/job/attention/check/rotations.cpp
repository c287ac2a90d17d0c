// SPDX-License-Identifier: Apache-2.0
// Contents that rotate q and k: that their rotary can be applied to such tensors at such positions, forward and back.
#include "job/attention/check.hpp"
#include "job/rotary.hpp"

namespace phasor::job {
namespace {

/// The error of a rotation as one of this call's.
Status of_content(const char* where, const Status& status) {
  if (status.ok()) return status;
  std::string message = std::string(where) + ": content: " + status.message();
  return status.kind() == ErrorKind::unsupported ? Status::unsupported(std::move(message)) : Status::invalid(std::move(message));
}

/// Copies that are widened are rotated in place, and so are gradients.
Status check_in_place(const plan::RotaryPlan& plan, const AttentionCall& call, const ConstTensorView& from, DType dtype) {
  const RotarySpec& spec = plan.spec;
  const bool in_place = call.gradients != nullptr || dtype != from.dtype;
  const bool across = spec.output_pairing.value_or(spec.pairing) != spec.pairing;
  if (!in_place || !across || is_empty(from) || spec.rotary_width <= kMaxWidthInPlaceAcrossPairings) return {};
  return Status::unsupported(
      spec::format("apply_rotary: rotary_width is {}, in place from one pairing to the other at most {} is supported", spec.rotary_width,
                   kMaxWidthInPlaceAcrossPairings));
}

Status check_side(const plan::RotaryPlan& plan, const AttentionCall& call, const Side& side) {
  if (side.from.shape[2] == 0) return {};
  const Result<RotateJob> job = make_rotation(plan, side, Direction::forward);
  return job.ok() ? check_in_place(plan, call, side.from, side.dtype) : job.status();
}

}  // namespace

DType rotated_dtype(const AttentionCall& call) {
  const DType inputs = call.inputs->q.dtype;
  if (std::holds_alternative<RotaryContent>(call.spec->content)) return inputs;
  return inputs == DType::f64 ? DType::f64 : DType::f32;
}

Result<RotateJob> make_rotation(const plan::RotaryPlan& plan, const Side& side, Direction direction) {
  Extents shape = side.from.shape;
  shape[0] = 0;
  const TensorView none = {nullptr, side.dtype, shape, contiguous_strides(shape), side.from.device};
  Positions at = {};
  if (side.positions && side.positions->data != nullptr && side.positions->shape[0] > 1) at = *side.positions;
  at.shape[1] = 1;
  const InOut in_out = none;
  return make_rotate_job({"apply_rotary", &in_out, nullptr}, plan, at, direction);
}

Status check_rotations(const AttentionCall& call) {
  const AttentionSpec& spec = *call.spec;
  const auto* rotary = std::get_if<RotaryContent>(&spec.content);
  const auto* xpos = std::get_if<XposContent>(&spec.content);
  if (rotary == nullptr && xpos == nullptr) return {};
  const plan::RotaryPlan& plan = rotary != nullptr ? rotary->rotary.plan() : xpos->rotary.plan();
  const DType dtype = rotated_dtype(call);
  if (Status s = check_side(plan, call, {call.inputs->q, spec.query_positions, dtype}); !s) return of_content(call.where, s);
  if (rotary != nullptr && rotary->keys == KeyState::rotated) return {};
  return of_content(call.where, check_side(plan, call, {call.inputs->k, spec.key_positions, dtype}));
}

}  // namespace phasor::job
