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

/// One side. A job of tensors of no batch row has every check and no elements; positions of one axis are a backend's to make.
Status check_side(const plan::RotaryPlan& plan, const AttentionCall& call, const ConstTensorView& from,
                  const std::optional<Positions>& given) {
  const bool decays = std::holds_alternative<XposContent>(call.spec->content);  // then factors are multiplied in
  Extents shape = from.shape;
  shape[0] = 0;
  if (shape[2] == 0) return {};
  const DType dtype = rotated_dtype(decays ? Numerics::exact : plan.spec.numerics, from.dtype);
  const TensorView none = {nullptr, dtype, shape, contiguous_strides(shape), from.device};
  Positions at = {};
  if (given && given->data != nullptr && given->shape[0] > 1) at = *given;
  at.shape[1] = 1;
  const InOut in_out = none;
  const Result<RotateJob> job = make_rotate_job({"apply_rotary", &in_out, nullptr}, plan, at, Direction::forward);
  return job.ok() ? check_in_place(plan, call, from, dtype) : job.status();
}

}  // namespace

DType rotated_dtype(Numerics numerics, DType inputs) {
  if (numerics != Numerics::exact) return inputs;
  return inputs == DType::f64 ? DType::f64 : DType::f32;
}

Status check_rotations(const AttentionCall& call) {
  const AttentionSpec& spec = *call.spec;
  const auto* rotary = std::get_if<RotaryContent>(&spec.content);
  const auto* xpos = std::get_if<XposContent>(&spec.content);
  if (rotary == nullptr && xpos == nullptr) return {};
  const plan::RotaryPlan& plan = rotary != nullptr ? rotary->rotary.plan() : xpos->rotary.plan();
  if (Status s = check_side(plan, call, call.inputs->q, spec.query_positions); !s) return of_content(call.where, s);
  if (rotary != nullptr && rotary->keys == KeyState::rotated) return {};
  return of_content(call.where, check_side(plan, call, call.inputs->k, spec.key_positions));
}

}  // namespace phasor::job
